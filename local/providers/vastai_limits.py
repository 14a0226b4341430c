"""Vast's minimum time between two calls of one endpoint."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping

DOCUMENTED_SECONDS: Mapping[str, float] = {
    "search": 6.0,
    "create": 4.5,
    "destroy": 3.0,
    "show": 2.0,
    "list": 1.0,
    "change_bid": 5.5,
}
_ENDPOINTS = (
    ("POST", re.compile(r"/api/v0/bundles/"), "search"),
    ("PUT", re.compile(r"/api/v0/asks/\d+/"), "create"),
    ("DELETE", re.compile(r"/api/v0/instances/\d+/"), "destroy"),
    ("GET", re.compile(r"/api/v0/instances/\d+/"), "show"),
    ("GET", re.compile(r"/api/v1/instances/"), "list"),
    ("PUT", re.compile(r"/api/v0/instances/bid_price/\d+/"), "change_bid"),
)


class IntervalLimits:
    """Remembers the last call of each endpoint."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()

    def broken_threshold(
        self, method: str, path: str, seconds: Mapping[str, float]
    ) -> float | None:
        """The interval that this call breaks, if it breaks one; otherwise note the call."""
        endpoint = next(
            (name for verb, path_of, name in _ENDPOINTS if verb == method and path_of.match(path)),
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
