"""The real clock and the system's source of randomness."""

import secrets
from datetime import UTC, datetime


class SystemClock:
    """A `Clock` that shows the machine's time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class SystemRandomness:
    """A `Randomness` fit for secrets."""

    def bits(self, count: int) -> int:
        return secrets.randbits(count)

    def secret(self) -> str:
        return secrets.token_urlsafe(32)
