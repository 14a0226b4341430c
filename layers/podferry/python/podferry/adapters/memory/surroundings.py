"""Clock, randomness, schedules, counters and the admin key under a test's control."""

import base64
import hmac
from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random

DEFAULT_TIME = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class ManualClock:
    """A `Clock` that stands still until it is moved."""

    def __init__(self, now: datetime = DEFAULT_TIME) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> None:
        """Let time pass."""
        self._now += by


class SeededRandomness:
    """A `Randomness` that gives the same values in each run. Not fit for secrets."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)  # noqa: S311 - the point is that it can be foretold

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)

    def secret(self) -> str:
        return base64.urlsafe_b64encode(self._random.randbytes(32)).decode().rstrip("=")


class MemorySchedules:
    """A `Schedules` that only remembers; disabled at first, as it is deployed."""

    def __init__(self) -> None:
        self.is_enabled = False

    def enable(self) -> None:
        self.is_enabled = True

    def disable(self) -> None:
        self.is_enabled = False


class MemorySignals:
    """A `Signals` whose counters can be read."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, amount: int = 1) -> None:
        self.counts[name] += amount


class FixedOperatorKey:
    """An `OperatorKey` that is known beforehand."""

    def __init__(self, token: str = "pf_admin_test") -> None:  # noqa: S107 - opens nothing real
        self._token = token

    def matches(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(errors="replace"), self._token.encode())
