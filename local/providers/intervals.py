"""Minimum time between two calls of one endpoint, as some providers keep it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence

Endpoint = tuple[str, re.Pattern[str], str]
"""Method, pattern of the path, and a name for the two."""


class IntervalLimits:
    """Remembers the last call of each endpoint."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()

    def broken_threshold(
        self, method: str, path: str, seconds: Mapping[str, float]
    ) -> float | None:
        """The interval that this call breaks, if it breaks one; otherwise note the call."""
        endpoint = next(
            (n for verb, pattern, n in self._endpoints if verb == method and pattern.match(path)),
            None,
        )
        threshold = seconds.get(endpoint or "")
        if endpoint is None or threshold is None:
            return None
        now = time.monotonic()
        with self._lock:
            last = self._last.get(endpoint)
            if last is not None and now - last < threshold:
                return threshold
            self._last[endpoint] = now
        return None
