"""Providers' money and sizes as ours: whole micro-USD, MiB and GiB."""

import math
import re
from decimal import ROUND_CEILING, Decimal

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]i?)B?\s*", re.IGNORECASE)
_BYTES = {
    "k": 10**3, "ki": 2**10, "m": 10**6, "mi": 2**20,
    "g": 10**9, "gi": 2**30, "t": 10**12, "ti": 2**40,
}  # fmt: skip
_GIB = Decimal(2**30)
_GB = Decimal(10**9)


def microusd(usd: Decimal) -> int:
    """Micro-USD, rounded up: a price shown is never below the price charged."""
    return int((usd * 1_000_000).to_integral_value(rounding=ROUND_CEILING))


def bytes_of(count: Decimal | str, units: str) -> int | None:
    """Bytes of a count and its unit (`Gi`, `GB`, `Mi` ...); `None` for a unit we do not know."""
    match = _QUANTITY.fullmatch(f"{count}{units}")
    if match is None:
        return None
    return int(Decimal(match[1]) * _BYTES[match[2].lower()])


def gb_from_gib(gib: int) -> int:
    """The whole decimal gigabytes that hold `gib` GiB."""
    return math.ceil(gib * _GIB / _GB)


def gib_from_gb(gb: Decimal) -> int:
    """The whole GiB that fit in `gb` decimal gigabytes."""
    return int(gb * _GB / _GIB)
