"""The time of a simulated provider: real, plus what a test skipped ahead."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """Seconds since 1970 as the provider sees them. Bills follow it, boot delays do not."""

    def __init__(self, offset_seconds: float = 0.0) -> None:
        self.offset_seconds = offset_seconds

    def now(self) -> float:
        return time.time() + self.offset_seconds

    def advance(self, seconds: float) -> None:
        self.offset_seconds += seconds


def to_rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
