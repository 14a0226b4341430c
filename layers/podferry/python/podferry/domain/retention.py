"""Which saves of a volume and which captures of an environment are kept.

Of saves all of a day, then one for each hour, then one for each day; of captures, which only stops
make, the newest three and one for each day of a week, besides those that are versions. An
environment never changes its image, so no capture needs to be kept for a change of base.

What is kept stands for its hour if it is the newest one of it, and for its day likewise. Hours and
days are those of UTC, so that the choice does not depend on when or how often it is made.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

KEEP_ALL = timedelta(hours=24)
KEEP_HOURLY = timedelta(days=7)
KEEP_DAILY = timedelta(days=30)
KEEP_CAPTURES = 3
KEEP_CAPTURES_DAILY = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Point:
    """A save. What is pinned is kept whatever its age; it stands for its hour and day as well."""

    id: str
    at: datetime
    is_pinned: bool = False


def expired(points: Iterable[Point], now: datetime) -> frozenset[str]:
    """The ids of those that need not be kept any longer."""
    ordered = sorted(points, key=lambda point: (point.at, point.id))
    of_hours = {_hour(point.at): point.id for point in ordered}
    of_days = {point.at.date(): point.id for point in ordered}

    def is_kept(point: Point) -> bool:
        age = now - point.at
        if point.is_pinned or age < KEEP_ALL:
            return True
        if age < KEEP_HOURLY:
            return of_hours[_hour(point.at)] == point.id
        return age < KEEP_DAILY and of_days[point.at.date()] == point.id

    return frozenset(point.id for point in ordered if not is_kept(point))


def expired_captures(points: Iterable[Point], now: datetime) -> frozenset[str]:
    """The ids of the captures of one environment that need not be kept any longer."""
    ordered = sorted(points, key=lambda point: (point.at, point.id))
    newest = {point.id for point in ordered[-KEEP_CAPTURES:]}
    recent = [point for point in ordered if now - point.at < KEEP_CAPTURES_DAILY]
    of_days = {point.at.date(): point.id for point in recent}
    kept = newest | set(of_days.values())
    return frozenset(p.id for p in ordered if p.id not in kept and not p.is_pinned)


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
