"""Which offers fit a pod, and in which order to try them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from podferry.domain.billing import billed_microseconds
from podferry.domain.experience import Outlook
from podferry.domain.offer import Candidates, HostFailure, NearMiss, Offer, Requirements

BAD_HOST_MEMORY = timedelta(hours=1)
BAD_HOST = "host failed this pod within the last hour"
NEAREST_SHOWN = 3
LOST_WORK_SECONDS = 150
"""Half of the default interval between saves: what is done again after a loss, on average."""
_HOUR = 3_600_000_000


def choose(
    offers: Iterable[Offer],
    wanted: Requirements,
    failures: Iterable[HostFailure],
    now: datetime,
    outlook: Outlook | None = None,
) -> Candidates:
    """The offers that meet every requirement, cheapest first for the planned run.

    `Candidates.ruled_out` counts the offers by the first requirement that each missed, so that
    "nothing fits" can say what to loosen; `nearest` then names the offers that miss the fewest.
    """
    outlook = outlook or Outlook()
    bad = {(f.provider, f.host) for f in failures if now - f.at < BAD_HOST_MEMORY}
    fitting: list[Offer] = []
    others: list[NearMiss] = []
    for offer in offers:
        failed = (BAD_HOST,) if (offer.provider, offer.host) in bad else ()
        missed = (*missed_by(offer, wanted), *failed)
        if missed:
            others.append(NearMiss(offer, missed))
        else:
            fitting.append(offer)
    fitting.sort(key=lambda offer: (effective_microusd(offer, outlook), offer.id))
    return Candidates(
        offers=tuple(fitting),
        ruled_out=dict(Counter(other.loosen[0] for other in others)),
        nearest=() if fitting else _nearest(others, outlook),
    )


def _nearest(others: Sequence[NearMiss], outlook: Outlook) -> tuple[NearMiss, ...]:
    """Those that miss the fewest requirements, one of each set of them, cheapest first."""

    def distance(miss: NearMiss) -> tuple[int, int, str]:
        return len(miss.loosen), effective_microusd(miss.offer, outlook), miss.offer.id

    first: dict[tuple[str, ...], NearMiss] = {}
    for miss in sorted(others, key=distance):
        first.setdefault(miss.loosen, miss)
    return tuple(first.values())[:NEAREST_SHOWN]


def effective_microusd(offer: Offer, outlook: Outlook) -> int:
    """What the planned run is expected to cost in all, in micro-USD.

    The provider's billing rule on boot, restore and run; and for each loss that is to be expected
    another boot and restore, the work since the last save, and half of a started increment.
    """
    expected = outlook.of(offer)
    start = expected.boot_seconds + expected.restore_seconds
    run = timedelta(seconds=start + outlook.planned_seconds)
    once = offer.price_microusd_per_hour * billed_microseconds(offer.billing, run) / _HOUR
    again_seconds = start + LOST_WORK_SECONDS + offer.billing.increment_seconds / 2
    losses = expected.losses_per_hour * outlook.planned_seconds / 3600
    again = offer.price_microusd_per_hour * again_seconds / 3600
    return round(once + losses * again)


def effective_microusd_per_hour(offer: Offer, outlook: Outlook) -> int:
    """The same for each hour of the planned run, to be compared with the offer's price."""
    return round(effective_microusd(offer, outlook) * 3600 / outlook.planned_seconds)


def missed_by(offer: Offer, wanted: Requirements) -> tuple[str, ...]:
    """The requirements that the offer does not meet, by their names; empty if it meets them all."""
    checks = (
        ("markets", offer.market in wanted.markets),
        ("providers", not wanted.providers or offer.provider in wanted.providers),
        ("kinds", not wanted.kinds or offer.kind in wanted.kinds),
        ("gpu_names", not wanted.gpu_names or offer.gpu_name in wanted.gpu_names),
        ("gpu_count", offer.gpu_count == wanted.gpu_count),
        ("min_vram_gib", _at_least(offer.vram_mib_per_gpu, wanted.min_vram_gib, 1024)),
        ("min_vcpus", _at_least(offer.vcpus, wanted.min_vcpus, 1)),
        ("min_memory_gib", _at_least(offer.memory_mib, wanted.min_memory_gib, 1024)),
        ("disk_gib", offer.disk_gib >= wanted.disk_gib),
        ("countries", not wanted.countries or offer.country in wanted.countries),
        ("arch", wanted.arch is None or offer.arch == wanted.arch),
        ("min_cuda", offer.cuda_max is None or takes_cuda(offer.cuda_max, wanted.min_cuda)),
        ("min_reliability", _reliable(offer.reliability, wanted.min_reliability)),
        (
            "max_price_microusd_per_hour",
            wanted.max_price_microusd_per_hour is None
            or offer.price_microusd_per_hour <= wanted.max_price_microusd_per_hour,
        ),
    )
    return tuple(name for name, is_met in checks if not is_met)


def takes_cuda(newest: str | None, wanted: str | None) -> bool:
    """Whether a driver whose newest CUDA is `newest` takes programs built for `wanted`.

    A driver takes everything that was built for its own version or an older one. Many providers do
    not say which they have; the agent does, before anything is restored.
    """
    if wanted is None:
        return True
    return newest is not None and cuda_version(newest) >= cuda_version(wanted)


def cuda_version(text: str) -> tuple[int, int]:
    """`12.4` as numbers, because `12.10` is newer than `12.4`; what cannot be read is oldest."""
    major, _, minor = text.strip().partition(".")
    if not major.isdigit():
        return 0, 0
    digits = minor.partition(".")[0]
    return int(major), int(digits) if digits.isdigit() else 0


def _reliable(has: float | None, wanted: float | None) -> bool:
    return wanted is None or (has is not None and has >= wanted)


def _at_least(has: float | None, wanted: int | None, unit: int) -> bool:
    """Unknown figures do not meet a requirement: renting on a guess costs money."""
    if wanted is None:
        return True
    # Providers round memory down to what the driver leaves (a 24 GiB card reports 24,564 MiB).
    return has is not None and has >= wanted * unit * 0.97
