"""Which saves of a volume are kept: all of a day, then one for each hour, then one for each day.

A save stands for its hour if it is the newest one of it, and for its day likewise. Hours and days
are those of UTC, so that the choice does not depend on when or how often it is made.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

KEEP_ALL = timedelta(hours=24)
KEEP_HOURLY = timedelta(days=7)
KEEP_DAILY = timedelta(days=30)


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


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
