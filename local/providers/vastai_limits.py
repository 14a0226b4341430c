"""Vast's minimum time between two calls of one endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from local.providers.intervals import Endpoint

DOCUMENTED_SECONDS: Mapping[str, float] = {
    "search": 6.0,
    "create": 4.5,
    "destroy": 3.0,
    "show": 2.0,
    "list": 1.0,
    "change_bid": 5.5,
}
ENDPOINTS: Sequence[Endpoint] = (
    ("POST", re.compile(r"/api/v0/bundles/"), "search"),
    ("PUT", re.compile(r"/api/v0/asks/\d+/"), "create"),
    ("DELETE", re.compile(r"/api/v0/instances/\d+/"), "destroy"),
    ("GET", re.compile(r"/api/v0/instances/\d+/"), "show"),
    ("GET", re.compile(r"/api/v1/instances/"), "list"),
    ("PUT", re.compile(r"/api/v0/instances/bid_price/\d+/"), "change_bid"),
)
