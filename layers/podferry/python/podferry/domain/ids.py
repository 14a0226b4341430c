"""Identifiers: `<prefix>_` and 26 characters of a ULID, so that ids sort by creation time.

The time and the random bits are arguments: the domain has no clock and no randomness of its own.
"""

import re
from datetime import datetime

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base32, lower case
_BODY = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")

RANDOM_BITS = 80
STAMP_BITS = 65


def encode_base32(value: int, length: int) -> str:
    """`value` as exactly `length` base32 characters, the most significant first."""
    return "".join(_ALPHABET[(value >> (5 * i)) & 31] for i in reversed(range(length)))


def new_id(prefix: str, now: datetime, random_bits: int) -> str:
    """A new id from a time (milliseconds count) and 80 random bits."""
    milliseconds = int(now.timestamp() * 1000)
    return f"{prefix}_{encode_base32(milliseconds << RANDOM_BITS | random_bits, 26)}"


def is_id(prefix: str, text: str) -> bool:
    """Whether `text` has the form of an id with this prefix."""
    head, _, body = text.partition("_")
    return head == prefix and _BODY.fullmatch(body) is not None


def new_stamp(deployment: str, random_bits: int) -> str:
    """The name a machine carries at its provider: 25 characters of `[a-z0-9-]`.

    25 is the shortest limit of any provider (Fluence's instance name). `deployment` is 8 hex
    digits, so that two Podferry deployments that share a provider key do not touch each other's
    machines.
    """
    return f"pf-{deployment}-{encode_base32(random_bits, 13)}"


def is_stamp_of(deployment: str, name: str) -> bool:
    """Whether a provider's name or label was stamped by this deployment."""
    return name.startswith(f"pf-{deployment}-")
