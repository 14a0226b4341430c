"""A restore drill: what was read of a snapshot to know that it can be restored."""

import hashlib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from podferry.domain.manifest import NeededObject

SAMPLE = 64
"""Objects of a sample. If one in twenty is damaged, 96 of 100 samples hold such a one."""


class ProofMode(StrEnum):
    """Every object is looked up in any case."""

    SAMPLE = "sample"
    """Some are read and hashed, other ones each time."""
    FULL = "full"
    """All are read and hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The snapshot was whole at this moment."""

    at: datetime
    mode: ProofMode
    objects: int
    """Looked up: there, of the size and with the checksum that were recorded."""
    objects_read: int
    bytes_read: int
    """Read and hashed to their names."""


def chosen(needed: Iterable[NeededObject], mode: ProofMode, seed: str) -> frozenset[NeededObject]:
    """The objects that are read: the same in every run that has this seed."""
    if mode == ProofMode.FULL:
        return frozenset(needed)

    def lot(one: NeededObject) -> bytes:
        return hashlib.sha256(f"{seed} {one.sha256}".encode()).digest()

    return frozenset(heapq.nsmallest(SAMPLE, needed, key=lot))
