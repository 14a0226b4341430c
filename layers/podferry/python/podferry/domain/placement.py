"""Which offers fit a pod, and in which order to try them."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from podferry.domain.billing import cost_microusd
from podferry.domain.offer import Candidates, HostFailure, Market, Offer, Requirements

BAD_HOST_MEMORY = timedelta(hours=1)
PLANNED_RUN = timedelta(hours=1)


def choose(
    offers: Iterable[Offer],
    wanted: Requirements,
    failures: Iterable[HostFailure],
    now: datetime,
) -> Candidates:
    """The offers that meet every requirement, cheapest first for the planned run.

    `Candidates.ruled_out` counts the offers by the first requirement that each missed, so that
    "nothing fits" can say what to loosen.
    """
    bad = {(f.provider, f.host) for f in failures if now - f.at < BAD_HOST_MEMORY}
    fitting: list[Offer] = []
    ruled_out: Counter[str] = Counter()
    for offer in offers:
        missed = first_missed(offer, wanted)
        if missed is None and (offer.provider, offer.host) in bad:
            missed = "host failed this pod within the last hour"
        if missed is None:
            fitting.append(offer)
        else:
            ruled_out[missed] += 1
    fitting.sort(key=lambda offer: (effective_price_microusd(offer, now), offer.id))
    return Candidates(offers=tuple(fitting), ruled_out=dict(ruled_out))


def effective_price_microusd(offer: Offer, now: datetime) -> int:
    """What the planned run costs under the provider's billing rule."""
    return cost_microusd(offer.billing, offer.price_microusd_per_hour, now, now + PLANNED_RUN)


def first_missed(offer: Offer, wanted: Requirements) -> str | None:
    """The first requirement that the offer does not meet; `None` if it meets them all."""
    checks = (
        ("market", offer.market == Market.ON_DEMAND),
        ("providers", not wanted.providers or offer.provider in wanted.providers),
        ("gpu_names", not wanted.gpu_names or offer.gpu_name in wanted.gpu_names),
        ("gpu_count", offer.gpu_count == wanted.gpu_count),
        ("min_vram_gib", _at_least(offer.vram_mib_per_gpu, wanted.min_vram_gib, 1024)),
        ("min_vcpus", _at_least(offer.vcpus, wanted.min_vcpus, 1)),
        ("min_memory_gib", _at_least(offer.memory_mib, wanted.min_memory_gib, 1024)),
        ("disk_gib", offer.disk_gib >= wanted.disk_gib),
        ("countries", not wanted.countries or offer.country in wanted.countries),
        (
            "max_price_microusd_per_hour",
            wanted.max_price_microusd_per_hour is None
            or offer.price_microusd_per_hour <= wanted.max_price_microusd_per_hour,
        ),
    )
    return next((name for name, is_met in checks if not is_met), None)


def _at_least(has: float | None, wanted: int | None, unit: int) -> bool:
    """Unknown figures do not meet a requirement: renting on a guess costs money."""
    if wanted is None:
        return True
    # Providers round memory down to what the driver leaves (a 24 GiB card reports 24,564 MiB).
    return has is not None and has >= wanted * unit * 0.97
