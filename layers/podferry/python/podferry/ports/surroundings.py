"""Clock, randomness, schedules, counters: what a pure program does not have."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Aware UTC time."""


class Randomness(Protocol):
    def bits(self, count: int) -> int:
        """A random integer of `count` bits, fit for secrets."""

    def secret(self) -> str:
        """43 URL-safe characters (256 bits)."""


class Schedules(Protocol):
    """Background work that exists only while something runs (promise 17)."""

    def enable(self) -> None:
        """Make the reconciler run every minute. Safe to call at any time."""

    def disable(self) -> None:
        """Stop it. Safe to call at any time."""


class Signals(Protocol):
    """Counters that someone acts on; each name has an alarm or a dashboard."""

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter; never raises."""


class OperatorKey(Protocol):
    """The admin key that was made at deployment."""

    def matches(self, token: str) -> bool:
        """Whether `token` is it, compared in constant time."""
