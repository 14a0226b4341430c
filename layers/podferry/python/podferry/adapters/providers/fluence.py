"""Fluence's GPU containers, virtual machines and bare metal as a `GpuCloud`.

From the provider's documentation as of 2026-11-30. What to keep in mind: the create call has no
idempotency (our stamp is the `name`); only what is ACTIVE can be ended; every started hour is
charged in full; refusals are 400 with plain text, so their meaning has to be read from words.
The three kinds have lists of their own. Virtual machines and bare metal take no start script, so
ours is brought over SSH; it needs Docker there.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import Field, ValidationError

from podferry.adapters.providers.fluence_launch import MAX_STARTUP_COMMAND, launch_body
from podferry.adapters.providers.fluence_machines import (
    COLLECTIONS,
    MachineGroup,
    Place,
    currencies,
    hourly,
    login_at,
    machine_body,
    offers_in,
)
from podferry.adapters.providers.fluence_plans import GpuModel, Pricing, Quantity, bytes_in, whole
from podferry.adapters.providers.gpu_names import canonical_name
from podferry.adapters.providers.units import bytes_of, microusd
from podferry.adapters.providers.vm_launch import MAX_BOOTSTRAP
from podferry.adapters.providers.wire import LenientDecimal, ProviderHTTP, WireModel, kind_of
from podferry.domain.errors import (
    CloudError,
    NoCapacityError,
    NotGoneYetError,
    OfferGoneError,
    ProviderBusyError,
    ProviderRefusedError,
    QuotaExceededError,
)
from podferry.domain.machine import PublicPort
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import BootTraits, CloudTraits, LaunchRequest, MachineView, ViewState

DEFAULT_BASE_URL = "https://api.fluence.dev"
STARTED_HOURS = BillingRule(increment_seconds=3600, minimum_seconds=3600)

# No rate limit is documented.
_NO_INTERVALS: Mapping[str, float] = {}
_DOLLARS = frozenset({"USD", "USDC"})

# The first pattern that is found in a 400's text says what it means. Only the balance text is
# documented word by word; the others follow the cases that the documentation describes.
REFUSALS: tuple[tuple[str, type[CloudError]], ...] = (
    (r"insufficient (balance|funds)", ProviderRefusedError),
    (r"os image .* not supported", ProviderRefusedError),
    (r"(plan|offer)\b.*\b(no longer|not found|not available|unavailable)", OfferGoneError),
    (r"no longer available", OfferGoneError),
    (r"(quota|limit)\b.*\b(exceeded|reached)", QuotaExceededError),
    (r"(no|not enough|insufficient) (available )?(capacity|resources)", NoCapacityError),
    (r"out of stock|no available (gpu|instance|provider)", NoCapacityError),
)

_STATES = {
    "INITIALIZED": ViewState.PROVISIONING,
    "ACTIVE": ViewState.STARTING,
    "FAILED": ViewState.FAILED,
    "ENDED": ViewState.GONE,
}


class _Supply(WireModel):
    vcpu: Quantity | None = None
    memory: Quantity | None = None
    storage: Quantity
    gpu_count: int


class _Plan(WireModel):
    id: str
    supply: _Supply
    gpu_model: GpuModel
    pricing: Pricing


class _Attributes(WireModel):
    location: list[str] = Field(default_factory=list)


class _PlanEntry(WireModel):
    plan: _Plan
    attributes: _Attributes = Field(default_factory=_Attributes)


class _Launched(WireModel):
    instance_id: str


class _ForwardedPort(WireModel):
    port: int
    external_port: int


class _Network(WireModel):
    domain: str | None = None
    forwarded_ports: list[_ForwardedPort] | None = None


class _Billing(WireModel):
    hourly_usage: LenientDecimal = None
    total_spendings: LenientDecimal = None
    next_billing_period: datetime | None = None


class _Instance(WireModel):
    """Of any kind: only containers have the first two statuses, the others the third."""

    id: str
    name: str | None = None
    instance_status: str = ""
    container_status: str | None = None
    status: str = ""
    ssh_connection: str | None = None
    billing: _Billing | None = None
    network: _Network | None = None


class FluenceCloud:
    """Fluence with one key."""

    name = "fluence"
    traits = CloudTraits(
        boots={
            Kind.CONTAINER: BootTraits(
                channel=Channel.ENTRYPOINT,
                bootstrap_limit=MAX_STARTUP_COMMAND,
                deadline_seconds=600,
            ),
            Kind.VM: BootTraits(
                channel=Channel.SSH, bootstrap_limit=MAX_BOOTSTRAP, deadline_seconds=1500
            ),
            Kind.BAREMETAL: BootTraits(
                channel=Channel.SSH, bootstrap_limit=MAX_BOOTSTRAP, deadline_seconds=3600
            ),
        },
        poll_seconds=10,
        listing_settles_seconds=60,
        failed_is_final=True,
        markets=(Market.ON_DEMAND,),
        billing=STARTED_HOURS,
        can_cancel_starting=False,
        reclaim_notice_seconds=None,
        shows_price=True,
        shows_billing_start=True,
    )
    """Limits: the field list of the API guide "deploy instance". Billing and what can be ended:
    page "GPU Cloud concepts". There is no spot market. How long virtual machines and bare metal
    take to boot is not documented: virtual ones of eight GPUs take up to 15 minutes elsewhere, and
    real ones go through a firmware's start and an installation."""
    min_interval_seconds = _NO_INTERVALS

    def __init__(
        self, api_key: str, base_url: str | None = None, client: httpx.Client | None = None
    ) -> None:
        self._http = ProviderHTTP(
            self.name, _host(base_url or DEFAULT_BASE_URL), {"X-API-KEY": api_key}, client
        )

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        """See the port. One offer for each plan and country, or option; only kinds are narrowed."""
        kinds = wanted.kinds or tuple(self.traits.boots)
        offers: list[Offer] = []
        if Kind.CONTAINER in kinds:
            plans = self._items(self._ask("GET", "/gpu/plans/"))
            offers += [offer for entry in plans for offer in self._offers_of(entry)]
        for kind, collection in COLLECTIONS.items():
            if kind in kinds:
                groups = self._items(self._ask("GET", f"/gpu/plans/{collection}"))
                offers += [offer for item in groups for offer in self._machines_of(item, kind)]
        return offers

    def create(self, request: LaunchRequest) -> str:
        """See the port."""
        collection = request.offer.reference.get("collection")
        body = launch_body(request) if collection is None else machine_body(request)
        answer = self._http.send_create("POST", _list_path(collection), body=body)
        if answer.is_success:
            return Place(
                collection, self._http.read_made(answer, _Launched).instance_id
            ).provider_id
        words = _words(answer)
        raise self._http.refusal(answer, words, kind_of(words, REFUSALS))

    def find(self, stamp: str) -> list[MachineView]:
        """See the port. The lists are whole, without pages; ended instances stay in them."""
        return [view for view in self.list_machines() if view.stamp == stamp]

    def list_machines(self) -> list[MachineView]:
        """See the port. One list for each kind: all of them have to answer."""
        return [
            _view(self._instance(item), collection)
            for collection in (None, *COLLECTIONS.values())
            for item in self._items(self._ask("GET", _list_path(collection)))
        ]

    def get(self, provider_id: str) -> MachineView:
        """See the port."""
        answer = self._http.send("GET", _instance_path(provider_id))
        if answer.status_code == 404:
            return MachineView.missing(provider_id)
        self._check(answer)
        return _view(self._http.read(answer, _Instance), Place.of(provider_id).collection)

    def give_up(self, provider_id: str) -> None:
        """See the port. Any refusal is explained by the state: only ACTIVE can be ended."""
        answer = self._http.send("DELETE", _instance_path(provider_id))
        if answer.is_success or answer.status_code == 404:
            return
        view = self.get(provider_id)
        if view.state not in {ViewState.GONE, ViewState.FAILED}:
            raise NotGoneYetError(
                f"fluence cannot end the machine while it is {view.raw_status}; ask again"
            )

    def _ask(self, method: str, path: str) -> httpx.Response:
        answer = self._http.send(method, path)
        self._check(answer)
        return answer

    def _check(self, answer: httpx.Response) -> None:
        if not answer.is_success:
            raise self._http.refused(answer, _words(answer))

    def _items(self, answer: httpx.Response) -> list[Any]:
        try:
            items = answer.json(parse_float=Decimal)
        except ValueError:
            items = None
        if isinstance(items, dict):
            # Some lists come in an envelope.
            items = items.get("data")
        if not isinstance(items, list):
            raise ProviderBusyError("fluence sent something else than a list")
        return items

    def _instance(self, item: Any) -> _Instance:
        """One of a list. An unreadable one may be ours, so the list cannot be called complete."""
        try:
            return _Instance.model_validate(item)
        except ValidationError as error:
            raise ProviderBusyError("fluence listed an instance that cannot be read") from error

    def _offers_of(self, item: Any) -> Iterator[Offer]:
        entry = self._http.read_offer(item, _PlanEntry)
        if entry is None:
            return
        if not self._is_in_dollars({entry.plan.pricing.currency.upper()}):
            return
        countries: list[str | None] = [*entry.attributes.location] or [None]
        yield from (_offer(entry.plan, country) for country in countries)

    def _machines_of(self, item: Any, kind: Kind) -> Iterator[Offer]:
        group = self._http.read_offer(item, MachineGroup)
        if group is not None and self._is_in_dollars(currencies(group)):
            yield from offers_in(group, kind, self.name, STARTED_HOURS)

    def _is_in_dollars(self, currencies: set[str]) -> bool:
        if foreign := currencies - _DOLLARS:
            self._http.left_out(f"priced in {', '.join(sorted(foreign))}")
        return not foreign


def _host(base_url: str) -> str:
    """Without `/gpu`, which the documentation counts among the address and among the paths."""
    return base_url.rstrip("/").removesuffix("/gpu")


def _list_path(collection: str | None) -> str:
    """Only the path of the containers ends in a slash."""
    return f"/gpu/instances/{collection or ''}"


def _instance_path(provider_id: str) -> str:
    place = Place.of(provider_id)
    within = _list_path(place.collection).rstrip("/")
    return f"{within}/{quote(place.id, safe='')}"


def _words(answer: httpx.Response) -> str:
    """The reason in an error body; of a 422 only places and messages, `input` holds our values."""
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return ""
    if not isinstance(detail, list):
        return str(detail)
    problems = (problem for problem in detail if isinstance(problem, dict))
    return "; ".join(
        f"{'.'.join(map(str, problem.get('loc', ())))}: {problem.get('msg', '')}"
        for problem in problems
    )


def _offer(plan: _Plan, country: str | None) -> Offer:
    supply = plan.supply
    reference = {"plan_id": plan.id} | ({"country": country} if country else {})
    return Offer(
        provider=FluenceCloud.name,
        reference=reference,
        host=None,
        kind=Kind.CONTAINER,
        market=Market.ON_DEMAND,
        gpu_name=canonical_name(plan.gpu_model.model, plan.gpu_model.interface),
        gpu_count=supply.gpu_count,
        vram_mib_per_gpu=whole(bytes_of(plan.gpu_model.vram or "", ""), 2**20),
        vcpus=float(supply.vcpu.count) if supply.vcpu else None,
        memory_mib=whole(bytes_in(supply.memory), 2**20),
        disk_gib=whole(bytes_in(supply.storage), 2**30) or 0,
        country=country,
        region=None,
        price_microusd_per_hour=microusd(plan.pricing.hour),
        billing=STARTED_HOURS,
        can_cancel_starting=False,
    )


def _view(instance: _Instance, collection: str | None) -> MachineView:
    billing = instance.billing or _Billing()
    status = instance.instance_status or instance.status
    return MachineView(
        provider_id=Place(collection, instance.id).provider_id,
        stamp=instance.name,
        state=_state(status, instance.container_status),
        raw_status="/".join(filter(None, (status, instance.container_status))),
        price_microusd_per_hour=hourly(billing.hourly_usage),
        ports=_ports(instance.network),
        login=None if collection is None else login_at(instance.ssh_connection),
        billing_started_at=_billing_start(billing),
    )


def _state(status: str, container_status: str | None) -> ViewState:
    """A container that crashed is shown like one whose image is pulled."""
    if (status, container_status) == ("ACTIVE", "NOT_STARTED"):
        return ViewState.PULLING
    return _STATES.get(status, ViewState.UNKNOWN)


def _ports(network: _Network | None) -> tuple[PublicPort, ...]:
    # The domain may be missing for a moment while the container is already ACTIVE.
    if network is None or not network.domain:
        return ()
    return tuple(
        PublicPort(internal=entry.port, host=network.domain, external=entry.external_port)
        for entry in network.forwarded_ports or ()
    )


def _billing_start(billing: _Billing) -> datetime | None:
    """When the first hour began: the next charge, minus one hour for each hour charged so far.

    Known only while the container runs; an ended record keeps neither price nor clock.
    """
    if not billing.hourly_usage or billing.next_billing_period is None:
        return None
    hours = max(round((billing.total_spendings or Decimal(0)) / billing.hourly_usage), 1)
    start = billing.next_billing_period - timedelta(hours=hours)
    return start.astimezone(UTC) if start.tzinfo else start.replace(tzinfo=UTC)
