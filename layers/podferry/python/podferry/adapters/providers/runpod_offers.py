"""RunPod's catalogue as offers: one for each GPU type, cloud and data centre that has stock.

The catalogue names no memory, cores or disk: a create call asks for them. An offer therefore says
what its create call will ask for, never less than `LEAST_RAM_GB` and `LEAST_VCPUS` for each GPU.
"""

import math
from collections.abc import Iterator
from decimal import Decimal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from podferry.adapters.providers.gpu_names import canonical_name
from podferry.adapters.providers.units import gb_from_gib, gib_from_gb, microusd
from podferry.adapters.providers.wire import LenientDecimal, WireModel
from podferry.domain.offer import BillingRule, Kind, Market, Offer, Requirements

PROVIDER = "runpod"
CLOUDS = ("SECURE", "COMMUNITY")
PER_SECOND = BillingRule(increment_seconds=1)

LEAST_RAM_GB = 8
LEAST_VCPUS = 2
# Smaller disks are refused for lack of capacity.
LEAST_DISK_GB = 20
# Docs: 0.10 USD for a GB and month of container disk.
_DISK_USD_PER_GB_HOUR = Decimal("0.10") / 720

# `US-KS-2` begins with its country, `EU-RO-1` with its continent.
_CONTINENTS = frozenset({"AF", "AP", "EU", "EUR", "ME", "OC", "SA", "SEA"})
_COUNTRY_LENGTH = 2


class CamelModel(WireModel):
    """RunPod writes its fields in camel case."""

    model_config = ConfigDict(alias_generator=to_camel)


class _ByCloud(CamelModel):
    secure: LenientDecimal = None
    community: LenientDecimal = None

    def of(self, cloud: str) -> Decimal:
        return (self.secure if cloud == "SECURE" else self.community) or Decimal(0)


class _DataCenter(CamelModel):
    id: str
    availability: str | None = None


class _Cuda(CamelModel):
    version: str
    available: bool = False


class GpuType(CamelModel):
    """One row of the catalogue."""

    id: str
    name: str
    manufacturer: str = "NVIDIA"
    memory: int
    price: _ByCloud
    max_count: _ByCloud
    availability: str | None = None
    data_centers: list[_DataCenter] = Field(default_factory=list)
    cuda_versions: list[_Cuda] = Field(default_factory=list)


class Catalog(CamelModel):
    gpus: list[object]


def disk_gb(gib: int) -> int:
    """What to ask for so that `gib` GiB fit."""
    return max(gb_from_gib(gib), LEAST_DISK_GB)


def offers_of(gpu: GpuType, cloud: str, wanted: Requirements) -> Iterator[Offer]:
    """What of a GPU type one cloud rents out in the wanted number."""
    is_usable = gpu.manufacturer.upper() == "NVIDIA" and gpu.availability != "NONE"
    has_price = gpu.price.of(cloud) > 0 and gpu.max_count.of(cloud) >= wanted.gpu_count
    if not is_usable or not has_price:
        return
    # Hosts of the community are in no data centre: one offer, wherever the host may be.
    places = gpu.data_centers if cloud == "SECURE" else []
    stocked: list[str | None] = [each.id for each in places if each.availability != "NONE"]
    for data_center in stocked if places else [None]:
        yield _offer(gpu, cloud, data_center, wanted)


def _offer(gpu: GpuType, cloud: str, data_center: str | None, wanted: Requirements) -> Offer:
    count = wanted.gpu_count
    ram_gb = _floor(gb_from_gib(wanted.min_memory_gib or 0), count, LEAST_RAM_GB)
    vcpus = _floor(wanted.min_vcpus or 0, count, LEAST_VCPUS)
    disk = disk_gb(wanted.disk_gib)
    reference = {
        "gpu_id": gpu.id,
        "count": count,
        "cloud": cloud,
        "min_ram_gb_per_gpu": ram_gb,
        "min_vcpus_per_gpu": vcpus,
    }
    return Offer(
        provider=PROVIDER,
        reference=reference | ({"data_center": data_center} if data_center else {}),
        host=None,
        kind=Kind.CONTAINER,
        market=Market.ON_DEMAND,
        gpu_name=canonical_name(gpu.name),
        gpu_count=count,
        vram_mib_per_gpu=gpu.memory * 1024,
        vcpus=float(vcpus * count),
        memory_mib=ram_gb * count * 10**9 // 2**20,
        disk_gib=gib_from_gb(Decimal(disk)),
        country=_country(data_center),
        region=data_center,
        price_microusd_per_hour=microusd(
            gpu.price.of(cloud) * count + disk * _DISK_USD_PER_GB_HOUR
        ),
        billing=PER_SECOND,
        cuda_max=_newest_cuda(gpu),
    )


def _floor(wanted: int, count: int, least: int) -> int:
    return max(math.ceil(wanted / count), least)


def _country(data_center: str | None) -> str | None:
    first, _, rest = (data_center or "").partition("-")
    country = rest.partition("-")[0] if first in _CONTINENTS else first
    return country if len(country) == _COUNTRY_LENGTH else None


def _newest_cuda(gpu: GpuType) -> str | None:
    versions = (each.version for each in gpu.cuda_versions if each.available)
    return max(versions, key=_numbers, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    """`12.11` is above `12.2`."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
