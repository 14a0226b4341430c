"""Lambda's instance types as offers: one for each type and region with capacity."""

import re
from collections.abc import Iterator

from podferry.adapters.providers.gpu_names import canonical_name
from podferry.adapters.providers.wire import WireModel
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer

PROVIDER = "lambda"
STARTED_MINUTES = BillingRule(increment_seconds=60)
MICROUSD_PER_CENT = 10_000

# The only place that tells the memory of a GPU and its form: `H100 (80 GB PCIe)`.
_GPU = re.compile(r"(?P<model>[^(]+?)\s*\((?P<gb>[0-9]+)\s*GB\s*(?P<form>[^)]*)\)")
# The agent is built for x86-64; these have ARM processors.
_ARM = re.compile(r"\b(GH|GB)[0-9]+")
# What Lambda calls so is the Quadro of 2018, not the Ada generation.
_MODELS = {"RTX 6000": "Quadro RTX 6000"}
_COUNTRIES = {
    "asia-northeast-1": "JP",
    "asia-northeast-2": "JP",
    "asia-south-1": "IN",
    "australia-east-1": "AU",
    "europe-central-1": "DE",
    "europe-south-1": "IT",
    "me-west-1": "IL",
}


class _Specs(WireModel):
    vcpus: int
    memory_gib: int
    storage_gib: int
    gpus: int


class InstanceType(WireModel):
    name: str
    gpu_description: str = ""
    price_cents_per_hour: int
    specs: _Specs


class _Region(WireModel):
    name: str


class TypeRow(WireModel):
    """One row of the catalogue."""

    instance_type: InstanceType
    regions_with_capacity_available: list[_Region]


class Catalog(WireModel):
    data: dict[str, object]


def offers_of(row: TypeRow) -> Iterator[Offer]:
    """One offer for each region; none of what has no GPU that we know how to use."""
    described = _GPU.fullmatch(row.instance_type.gpu_description.strip())
    if described is None or _ARM.search(described["model"]) or row.instance_type.specs.gpus < 1:
        return
    for region in row.regions_with_capacity_available:
        yield _offer(row.instance_type, described, region.name)


def _offer(kind: InstanceType, described: re.Match[str], region: str) -> Offer:
    model = _MODELS.get(described["model"], described["model"])
    return Offer(
        provider=PROVIDER,
        reference={"instance_type": kind.name, "region": region},
        host=None,
        kind=Kind.VM,
        market=Market.ON_DEMAND,
        channel=Channel.CLOUD_INIT,
        gpu_name=canonical_name(model, described["form"] or None),
        gpu_count=kind.specs.gpus,
        vram_mib_per_gpu=int(described["gb"]) * 1024,
        vcpus=float(kind.specs.vcpus),
        memory_mib=kind.specs.memory_gib * 1024,
        disk_gib=kind.specs.storage_gib,
        country="US" if region.startswith("us-") else _COUNTRIES.get(region),
        region=region,
        price_microusd_per_hour=kind.price_cents_per_hour * MICROUSD_PER_CENT,
        billing=STARTED_MINUTES,
        can_cancel_starting=False,
    )
