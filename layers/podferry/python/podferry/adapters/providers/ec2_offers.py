"""What EC2 sells: GPU types, where each is sold, and what it costs.

Sources (read 2026-11-30): `DescribeInstanceTypes` for what a type is,
`DescribeInstanceTypeOfferings` for its zones (not its stock, which nobody is told),
`DescribeSpotPriceHistory` for spot prices, and the Price List API (`GetProducts` of AmazonEC2) for
on-demand and disk prices. All but spot prices change rarely and are kept for a day.
"""

import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from podferry.adapters.providers.ec2_calls import Clients
from podferry.adapters.providers.gpu_names import canonical_name
from podferry.adapters.providers.units import microusd
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements

_LOGGER = logging.getLogger(__name__)

PER_SECOND = BillingRule(increment_seconds=1, minimum_seconds=60)
IMAGE_GIB = 75
"""What the deep learning image takes of the disk, so that a pod gets all it asked for."""
SPOT_NOTICE_SECONDS = 120

_DAY_SECONDS = 86_400
_HOURS_PER_MONTH = 730
_PUBLIC_ADDRESS_USD = Decimal("0.005")
"""Each public IPv4 address costs this per hour in every region, since 2024-02-01."""
_PRICING_REGION = "us-east-1"
_MAX_SPOT_TYPES = 100
# The image's open driver begins with Turing: P2, P3 and G3 have older GPUs.
_FAMILIES = ["g4dn.*", "g5.*", "g6*.*", "gr6*.*", "g7*.*", "p4*.*", "p5*.*", "p6*.*"]
_TYPE_FILTERS = [
    {"Name": "instance-type", "Values": _FAMILIES},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64"]},
]
_ZONE_FILTERS = [{"Name": "instance-type", "Values": _FAMILIES}]

COUNTRIES = {
    "af-south-1": "ZA", "ap-east-1": "HK", "ap-east-2": "TW", "ap-northeast-1": "JP",
    "ap-northeast-2": "KR", "ap-northeast-3": "JP", "ap-south-1": "IN", "ap-south-2": "IN",
    "ap-southeast-1": "SG", "ap-southeast-2": "AU", "ap-southeast-3": "ID", "ap-southeast-4": "AU",
    "ap-southeast-5": "MY", "ap-southeast-6": "NZ", "ap-southeast-7": "TH", "ca-central-1": "CA",
    "ca-west-1": "CA", "eu-central-1": "DE", "eu-central-2": "CH", "eu-north-1": "SE",
    "eu-south-1": "IT", "eu-south-2": "ES", "eu-west-1": "IE", "eu-west-2": "GB",
    "eu-west-3": "FR", "il-central-1": "IL", "me-central-1": "AE", "me-south-1": "BH",
    "mx-central-1": "MX", "sa-east-1": "BR", "us-east-1": "US", "us-east-2": "US",
    "us-west-1": "US", "us-west-2": "US",
}  # fmt: skip
"""From the AWS documentation's table of regions."""


@dataclass(frozen=True, slots=True)
class GpuType:
    """One instance type with whole NVIDIA GPUs."""

    name: str
    gpu_name: str
    gpu_count: int
    vram_mib: int
    vcpus: int
    memory_mib: int
    markets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RegionCatalog:
    """What one region sells, as of `read_at` (seconds of the monotonic clock)."""

    read_at: float
    types: tuple[GpuType, ...]
    zones: dict[str, list[str]]
    on_demand_usd: dict[str, Decimal]
    disk_usd_per_gb_month: Decimal


class Ec2Market:
    """Offers of some regions."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._catalogs: dict[str, RegionCatalog] = {}

    def offers(self, region: str, wanted: Requirements) -> Iterator[Offer]:
        """Every type, zone and market of a region with the wanted GPUs."""
        catalog = self._catalog(region)
        types = [each for each in catalog.types if _is_wanted(each, wanted)]
        spot_usd = self._spot_usd(region, [each.name for each in types])
        extra = _PUBLIC_ADDRESS_USD + (
            catalog.disk_usd_per_gb_month * volume_gib(wanted.disk_gib) / _HOURS_PER_MONTH
        )
        for gpu_type in types:
            for zone in catalog.zones[gpu_type.name]:
                prices = {
                    Market.ON_DEMAND: catalog.on_demand_usd.get(gpu_type.name),
                    Market.SPOT: spot_usd.get((gpu_type.name, zone)),
                }
                for market, usd in prices.items():
                    if usd is not None and _WIRE_MARKETS[market] in gpu_type.markets:
                        yield _offer(gpu_type, zone, market, microusd(usd + extra), wanted)

    def _catalog(self, region: str) -> RegionCatalog:
        known = self._catalogs.get(region)
        if known is None or time.monotonic() - known.read_at > _DAY_SECONDS:
            known = self._read(region)
            self._catalogs[region] = known
        return known

    def _read(self, region: str) -> RegionCatalog:
        ec2 = self._clients("ec2", region)
        described = _pages(ec2, "describe_instance_types", "InstanceTypes", Filters=_TYPE_FILTERS)
        types = tuple(gpu_type for each in described for gpu_type in _gpu_type(each))
        zones = defaultdict(list)
        for each in _pages(
            ec2,
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=_ZONE_FILTERS,
        ):
            zones[each["InstanceType"]].append(each["Location"])
        return RegionCatalog(
            time.monotonic(),
            types,
            zones,
            dict(self._on_demand(region)),
            self._disk_usd(region),
        )

    def _on_demand(self, region: str) -> Iterator[tuple[str, Decimal]]:
        for product in self._products(
            region,
            productFamily="Compute Instance",
            instanceFamily="GPU instance",
            operatingSystem="Linux",
            tenancy="Shared",
            preInstalledSw="NA",
            capacitystatus="Used",
            marketoption="OnDemand",
        ):
            usd = _usd(product)
            if usd:
                yield product["product"]["attributes"]["instanceType"], usd

    def _disk_usd(self, region: str) -> Decimal:
        for product in self._products(region, productFamily="Storage", volumeApiName="gp3"):
            usd = _usd(product)
            if usd:
                return usd
        _LOGGER.warning("no disk price", extra={"provider": "ec2", "region": region})
        return Decimal(0)

    def _products(self, region: str, **attributes: str) -> Iterator[dict[str, Any]]:
        filters = [
            {"Type": "TERM_MATCH", "Field": name, "Value": value}
            for name, value in {**attributes, "regionCode": region}.items()
        ]
        pricing = self._clients("pricing", _PRICING_REGION)
        texts = _pages(
            pricing, "get_products", "PriceList", ServiceCode="AmazonEC2", Filters=filters
        )
        yield from (json.loads(text, parse_float=Decimal) for text in texts)

    def _spot_usd(self, region: str, types: list[str]) -> dict[tuple[str, str], Decimal]:
        """The price of each (type, zone) now: a start of now leaves out the history."""
        found: dict[tuple[str, str], Decimal] = {}
        ec2 = self._clients("ec2", region)
        for first in range(0, len(types), _MAX_SPOT_TYPES):
            for each in _pages(
                ec2,
                "describe_spot_price_history",
                "SpotPriceHistory",
                InstanceTypes=types[first : first + _MAX_SPOT_TYPES],
                ProductDescriptions=["Linux/UNIX"],
                StartTime=datetime.now(UTC),
            ):
                place = (each["InstanceType"], each["AvailabilityZone"])
                # Newest first, where several are told.
                found.setdefault(place, Decimal(each["SpotPrice"]))
        return found


_WIRE_MARKETS = {Market.ON_DEMAND: "on-demand", Market.SPOT: "spot"}


def volume_gib(disk_gib: int) -> int:
    """The root volume that leaves `disk_gib` to the pod."""
    return IMAGE_GIB + disk_gib


def _pages(client: Any, operation: str, key: str, **arguments: Any) -> Iterable[Any]:
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page.get(key, [])


def _gpu_type(described: dict[str, Any]) -> Iterator[GpuType]:
    gpus = described.get("GpuInfo", {}).get("Gpus", [])
    if len(gpus) != 1 or gpus[0].get("Manufacturer") != "NVIDIA" or not gpus[0].get("Count"):
        return
    # A share of a GPU wants another driver than the image has.
    if 0 < float(gpus[0].get("GpuPartitionSize") or 1) < 1:
        return
    yield GpuType(
        name=described["InstanceType"],
        gpu_name=canonical_name(gpus[0]["Name"], _interface(described["InstanceType"])),
        gpu_count=gpus[0]["Count"],
        vram_mib=gpus[0]["MemoryInfo"]["SizeInMiB"],
        vcpus=described["VCpuInfo"]["DefaultVCpus"],
        memory_mib=described["MemoryInfo"]["SizeInMiB"],
        markets=tuple(described.get("SupportedUsageClasses", ("on-demand",))),
    )


def _interface(type_name: str) -> str | None:
    """EC2 says `H100`; all P types have the SXM form."""
    return "SXM" if type_name.startswith(("p4", "p5")) else None


def _is_wanted(gpu_type: GpuType, wanted: Requirements) -> bool:
    is_named = not wanted.gpu_names or gpu_type.gpu_name in wanted.gpu_names
    return is_named and gpu_type.gpu_count == wanted.gpu_count


def _offer(gpu_type: GpuType, zone: str, market: Market, price: int, wanted: Requirements) -> Offer:
    region = zone.rstrip("abcdefghijklmnopqrstuvwxyz")
    return Offer(
        provider="ec2",
        reference={"type": gpu_type.name, "zone": zone, "market": market.value},
        host=None,
        kind=Kind.BAREMETAL if ".metal" in gpu_type.name else Kind.VM,
        market=market,
        channel=Channel.CLOUD_INIT,
        gpu_name=gpu_type.gpu_name,
        gpu_count=gpu_type.gpu_count,
        vram_mib_per_gpu=gpu_type.vram_mib,
        vcpus=float(gpu_type.vcpus),
        memory_mib=gpu_type.memory_mib,
        disk_gib=wanted.disk_gib,
        country=COUNTRIES.get(region),
        region=region,
        price_microusd_per_hour=price,
        billing=PER_SECOND,
        reclaim_notice_seconds=SPOT_NOTICE_SECONDS if market is Market.SPOT else None,
    )


def _usd(product: dict[str, Any]) -> Decimal | None:
    """The price per unit in US dollars: one term, one dimension, for on-demand use."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            try:
                usd = Decimal(dimension["pricePerUnit"]["USD"])
            except (KeyError, InvalidOperation):
                continue
            if usd > 0:
                return usd
    return None
