"""Sums over the days of a bill: what users look at."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from podferry.domain.ledger import Line, Payer, UsageDay

LONGEST_DAYS = 366
"""In one look at the usage."""


class UsageBy(StrEnum):
    """What one row of the usage is about."""

    DAY = "day"
    POD = "pod"
    PROVIDER = "provider"
    GPU = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSum:
    """Time and money of some days."""

    key: str | None
    """The day, pod, provider or GPU; `None` where there is none, such as the pod of a ghost."""
    microseconds: int
    by_payer: dict[Payer, int]
    by_line: dict[Line, int]


def usage_by(days: Iterable[UsageDay], by: UsageBy) -> list[UsageSum]:
    """One row for each day, pod, provider or GPU, in their order; credits are no usage."""
    grouped: defaultdict[str | None, list[UsageDay]] = defaultdict(list)
    for day in days:
        if day.rented is not None:
            grouped[_key(day, by)].append(day)
    return [summed(grouped[key], key) for key in sorted(grouped, key=lambda key: key or "")]


def summed(days: Iterable[UsageDay], key: str | None = None) -> UsageSum:
    """All of them together."""
    payers: defaultdict[Payer, int] = defaultdict(int)
    lines: defaultdict[Line, int] = defaultdict(int)
    microseconds = 0
    for day in days:
        microseconds += day.microseconds
        payers[day.payer] += day.amount_microusd
        lines[day.line] += day.amount_microusd
    return UsageSum(key=key, microseconds=microseconds, by_payer=dict(payers), by_line=dict(lines))


def _key(day: UsageDay, by: UsageBy) -> str | None:
    if day.rented is None or by == UsageBy.DAY:
        return day.day
    if by == UsageBy.POD:
        return day.rented.pod_id
    if by == UsageBy.PROVIDER:
        return day.rented.provider
    return day.rented.gpu_name
