"""What is stored, and who answers for it: each byte of the store is charged exactly once.

An object lies below the snapshot that stored it, so a snapshot's charge is what lies below it and
is needed. The volume or environment of that snapshot answers for it while it needs it, then the
oldest other one that does. So a fork costs what it adds, and no bill changes because somebody else
forks or saves. What an account has is the sum of what its volumes and environments have, and that
is what lies in the store for it (docs/adr/0023).
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from podferry.domain.entity import Entity

SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What lies below one snapshot."""

    to: str
    """The environment or volume that answers for it."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse(Entity):
    """All that one environment or volume answers for; moves in the transactions of charges."""

    PREFIX: ClassVar[str] = "stored"

    subject_id: str
    bytes: int = 0
    byte_seconds: int = 0
    """The sum over time up to `counted_to`; what storage costs is the growth of this."""
    counted_to: datetime

    def byte_seconds_at(self, now: datetime) -> int:
        """The sum over time up to now, in whole seconds."""
        return self.byte_seconds + self.bytes * self._seconds_to(now)

    def _seconds_to(self, now: datetime) -> int:
        return max(0, (now - self.counted_to) // SECOND)

    def grown_by(self, delta: int, now: datetime) -> "StorageUse":
        """With so many bytes more, or fewer, from now on."""
        return replace(
            self,
            bytes=self.bytes + delta,
            byte_seconds=self.byte_seconds_at(now),
            counted_to=self.counted_to + self._seconds_to(now) * SECOND,
        )


def use_id(subject_id: str) -> str:
    """The id of the row of an environment or a volume."""
    return f"{StorageUse.PREFIX}_{subject_id}"
