"""Vast.ai's offers: what is searched for, and each answer as one we can rent, on demand or by bid.

A bid is paid in full while it leads, and a higher one takes the machine away. So we bid somewhat
more than the least, and never more than what is left of the pod's price cap beside the disk.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from podferry.adapters.providers.gpu_names import canonical_name, vast_names
from podferry.adapters.providers.units import gib_from_gb, microusd
from podferry.adapters.providers.vastai_launch import HIGHEST_BID_MICROUSD, disk_gb
from podferry.adapters.providers.wire import LenientDecimal, WireModel
from podferry.domain.offer import BillingRule, Kind, Market, Offer, Requirements

PROVIDER = "vastai"
PER_SECOND = BillingRule(increment_seconds=1)
BID_OVER_MINIMUM = Decimal("1.25")
"""Our choice: at the least bid the next bidder takes the machine."""

_SEARCH_LIMIT = 300
_MIN_PUBLIC_PORTS = 2
# The host's contract ends the rental; a pod should have a day at least.
_MIN_REMAINING_SECONDS = 86_400
_STORAGE_HOURS = 720


class VastOffer(WireModel):
    """One row of a search's answer."""

    id: str
    machine_id: str
    gpu_name: str
    num_gpus: int
    gpu_ram: Decimal
    disk_space: Decimal
    dph_base: Decimal
    storage_cost: Decimal
    min_bid: LenientDecimal = None
    is_bid: bool | None = None
    gpu_arch: str | None = None
    cpu_arch: str | None = None
    cpu_cores: LenientDecimal = None
    cpu_cores_effective: LenientDecimal = None
    cpu_ram: LenientDecimal = None
    geolocation: str | None = None
    reliability: LenientDecimal = None
    reliability2: LenientDecimal = None
    cuda_max_good: LenientDecimal = None


def search_body(wanted: Requirements) -> dict[str, Any]:
    """One search for both markets: there may be only ten a minute.

    What can be rented on demand names its least bid as well, so bids are searched for by themselves
    only where nothing else is wanted.
    """
    allocated_gb = disk_gb(wanted.disk_gib)
    filters: dict[str, Any] = {
        "limit": _SEARCH_LIMIT,
        "type": "ondemand" if Market.ON_DEMAND in wanted.markets else "bid",
        "order": [["dph_total", "asc"]],
        "allocated_storage": allocated_gb,
        "verified": {"eq": True},
        "rentable": {"eq": True},
        "rented": {"eq": False},
        "num_gpus": {"eq": wanted.gpu_count},
        "disk_space": {"gte": allocated_gb},
        "direct_port_count": {"gte": _MIN_PUBLIC_PORTS},
        "duration": {"gte": _MIN_REMAINING_SECONDS},
    }
    if wanted.gpu_names:
        names = (spelling for name in wanted.gpu_names for spelling in vast_names(name))
        filters["gpu_name"] = {"in": sorted(set(names))}
    if wanted.countries:
        filters["geolocation"] = {"in": list(wanted.countries)}
    return filters


def offers_of(offer: VastOffer, wanted: Requirements) -> Iterator[Offer]:
    """What one row can be rented as; nothing if the agent, built for x86-64, cannot run there."""
    if offer.cpu_arch not in {None, "amd64"} or offer.gpu_arch not in {None, "nvidia"}:
        return
    storage = disk_gb(wanted.disk_gib) * offer.storage_cost / _STORAGE_HOURS
    # In a search for bids `dph_base` is the bid's price, not the one on demand.
    if Market.ON_DEMAND in wanted.markets and not offer.is_bid:
        reference = {"ask_id": offer.id}
        yield _offer(offer, Market.ON_DEMAND, reference, microusd(offer.dph_base + storage))
    if Market.SPOT in wanted.markets and offer.min_bid is not None:
        bid = _bid_microusd(offer.min_bid, microusd(storage), wanted.max_price_microusd_per_hour)
        if bid <= HIGHEST_BID_MICROUSD:
            reference = {"ask_id": offer.id, "bid_microusd": str(bid)}
            yield _offer(offer, Market.SPOT, reference, bid + microusd(storage))


def _bid_microusd(min_bid: Decimal, storage_microusd: int, cap_microusd: int | None) -> int:
    """What to bid an hour; where the cap does not reach the least, that: the cap rules it out."""
    least, bid = microusd(min_bid), microusd(min_bid * BID_OVER_MINIMUM)
    if cap_microusd is None:
        return bid
    return max(least, min(bid, cap_microusd - storage_microusd))


def _offer(offer: VastOffer, market: Market, reference: dict[str, str], price: int) -> Offer:
    region, _, country = (offer.geolocation or "").rpartition(",")
    reliability = offer.reliability if offer.reliability is not None else offer.reliability2
    vcpus = offer.cpu_cores_effective
    return Offer(
        provider=PROVIDER,
        reference=reference,
        host=offer.machine_id,
        kind=Kind.CONTAINER,
        market=market,
        gpu_name=canonical_name(offer.gpu_name),
        gpu_count=offer.num_gpus,
        vram_mib_per_gpu=int(offer.gpu_ram),
        vcpus=None if vcpus is None else float(vcpus),
        memory_mib=_memory_share(offer),
        disk_gib=gib_from_gb(offer.disk_space),
        country=country.strip() or None,
        region=region.strip() or None,
        price_microusd_per_hour=price,
        billing=PER_SECOND,
        reliability=None if reliability is None else float(reliability),
        cuda_max=None if offer.cuda_max_good is None else str(offer.cuda_max_good),
    )


def _memory_share(offer: VastOffer) -> int | None:
    """`cpu_ram` and `cpu_cores` are the whole host's; ours is in proportion to our cores."""
    if not offer.cpu_ram or not offer.cpu_cores or offer.cpu_cores_effective is None:
        return None
    return int(offer.cpu_ram * offer.cpu_cores_effective / offer.cpu_cores)
