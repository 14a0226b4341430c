"""What nothing needs any more: how long it has to wait, and what is noted of it meanwhile.

Nothing is deleted at first sight. A dead snapshot is marked, waits, is looked at again, becomes
`deleted`, and only then its objects go, one by one, unless a committed snapshot needs them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from podferry.domain.entity import Entity

LONGEST_UPLOAD = timedelta(hours=24)
"""A capture that takes longer is given up."""
GRACE = timedelta(hours=24)
SAFE_AGE = LONGEST_UPLOAD + GRACE
"""Younger snapshots and younger objects are left alone, whatever is known of them."""
WAIT = timedelta(hours=24)
"""Between the mark and the second look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """When a snapshot was found dead."""

    at: datetime
    round: int

    def is_ripe(self, now: datetime, round_number: int) -> bool:
        """A clock that jumps ahead cannot end the wait: rounds are begun by the schedule."""
        return round_number > self.round and now - self.at >= WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """How far the objects that lie under a snapshot have been looked through."""

    kept_for: tuple[str, ...]
    """The committed snapshots that were asked what they need; with others it begins anew."""
    up_to: str | None = None
    """The last key of a sweep that ran out of time."""
    held: int = 0
    """Objects that stay."""
    needed_bytes: int = 0
    """Of those that are needed."""
    has_young: bool = False
    """Something was too young to be judged, so the sweep is repeated."""
    is_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector(Entity):
    """Where the garbage collector stands; its revision fences off a run that was overtaken."""

    PREFIX: ClassVar[str] = "gc"

    round: int = 0
    runs: int = 0
    finished_at: datetime | None = None
    done: str | None = None
    """`<account>/<kind>` that this round finished last; a later run goes on behind it."""
    snapshots_deleted: int = 0
    objects_freed: int = 0
    bytes_freed: int = 0
    """Of this round, at least: a crash between a deletion and its note leaves it uncounted."""
