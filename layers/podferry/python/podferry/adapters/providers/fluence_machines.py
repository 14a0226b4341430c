"""Fluence's virtual machines and bare metal: what they look like, and what they are rented with.

They take no user data, environment or ports: an `Installer` brings the bootstrap over SSH. Which of
the images have Docker is not documented; the one that is chosen says so by name, if any does.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import Field

from podferry.adapters.providers.fluence_launch import check_name
from podferry.adapters.providers.fluence_plans import GpuModel, Pricing, Quantity, bytes_in, whole
from podferry.adapters.providers.gpu_names import canonical_name
from podferry.adapters.providers.units import bytes_of, microusd
from podferry.adapters.providers.vm_launch import start_script
from podferry.adapters.providers.wire import WireModel
from podferry.domain.errors import ProviderRefusedError
from podferry.domain.machine import Login
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer
from podferry.ports.gpu_cloud import LaunchRequest

COLLECTIONS = {Kind.VM: "vms", Kind.BAREMETAL: "baremetal"}
_SEPARATOR = "."
# Data centres are named like `us-central-3`. These beginnings are no countries.
_CONTINENTS = frozenset({"af", "ap", "eu", "me", "na", "sa"})
_PLACE = re.compile(r"([a-z]{2})-.*")
_CONNECTION = re.compile(r"ssh (?:-p (\d+) )?([\w.-]+)@([\w.:-]+)(?: -p (\d+))?")
_NUMBER = re.compile(r"\d+")
_SSH_PORT = 22


class _Option(WireModel):
    id: str
    location: str | None = None
    vcpu: Quantity | None = None
    memory: Quantity | None = None
    storage: Quantity
    pricing: Pricing
    os_options: list[str] = Field(min_length=1)


class _ByNumber(WireModel):
    gpu_count: int
    options: list[_Option] = Field(default_factory=list)


class MachineGroup(WireModel):
    """All options with one GPU model."""

    gpu_model: GpuModel
    availability_by_number: list[_ByNumber] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instance stands in the API; our `provider_id` says it in one word.

    Containers have the ids that Fluence gives them, others the name of their list before it.
    """

    collection: str | None
    id: str

    @classmethod
    def of(cls, provider_id: str) -> "Place":
        head, found, rest = provider_id.partition(_SEPARATOR)
        if found and head in COLLECTIONS.values():
            return cls(head, rest)
        return cls(None, provider_id)

    @property
    def provider_id(self) -> str:
        return self.id if self.collection is None else f"{self.collection}{_SEPARATOR}{self.id}"


def offers_in(
    group: MachineGroup, kind: Kind, provider: str, billing: BillingRule
) -> Iterator[Offer]:
    """One offer for each option."""
    model = group.gpu_model
    for number in group.availability_by_number:
        for option in number.options:
            yield Offer(
                provider=provider,
                reference={
                    "collection": COLLECTIONS[kind],
                    "os_image": _os_image(option.os_options),
                    "plan_id": option.id,
                },
                host=None,
                kind=kind,
                market=Market.ON_DEMAND,
                gpu_name=canonical_name(model.model, model.interface),
                gpu_count=number.gpu_count,
                vram_mib_per_gpu=whole(bytes_of(model.vram or "", ""), 2**20),
                vcpus=float(option.vcpu.count) if option.vcpu else None,
                memory_mib=whole(bytes_in(option.memory), 2**20),
                disk_gib=whole(bytes_in(option.storage), 2**30) or 0,
                country=_country(option.location),
                region=option.location,
                price_microusd_per_hour=microusd(option.pricing.hour),
                billing=billing,
                channel=Channel.SSH,
                can_cancel_starting=False,
            )


def currencies(group: MachineGroup) -> set[str]:
    """In which the options are priced."""
    return {
        option.pricing.currency.upper()
        for number in group.availability_by_number
        for option in number.options
    }


def machine_body(request: LaunchRequest) -> dict[str, Any]:
    """The body of the create call.

    Raises:
        ProviderRefusedError: the request does not fit, also if only its bootstrap does not.
    """
    check_name(request.stamp)
    start_script(request)
    if request.ssh_public_key is None:
        raise ProviderRefusedError("fluence cannot launch this: without an SSH key nobody gets in")
    return {
        "plan_id": request.offer.reference["plan_id"],
        "name": request.stamp,
        "ssh_key": request.ssh_public_key,
        "os_image": request.offer.reference["os_image"],
    }


def login_at(connection: str | None) -> Login | None:
    """From what the provider shows to be copied into a terminal: `ssh ubuntu@203.0.113.9`."""
    match = _CONNECTION.fullmatch((connection or "").strip())
    if match is None:
        return None
    before, user, host, behind = match.groups()
    return Login(host=host, port=int(before or behind or _SSH_PORT), user=user)


def _os_image(options: Sequence[str]) -> str:
    """The one that most likely has Docker and the GPU's driver, of these the newest."""

    def rank(name: str) -> tuple[bool, bool, bool, list[int]]:
        words = name.lower()
        numbers = [int(number) for number in _NUMBER.findall(words)]
        return "docker" in words, "cuda" in words, "ubuntu" in words, numbers

    return max(options, key=rank)


def _country(location: str | None) -> str | None:
    match = _PLACE.fullmatch(location or "")
    if match is None or match[1] in _CONTINENTS:
        return None
    return match[1].upper()


def hourly(price: Decimal | None) -> int | None:
    """A price that may be missing or zero, in micro-USD."""
    return microusd(price) if price else None
