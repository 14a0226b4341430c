"""Snapshots: what the engine commits, a manifest over content-addressed packs.

    open ─> captured ─> committed          open, captured ─> abandoned

`captured` is the agent's word; `committed` is ours, after verification. Committed is final.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from podferry.domain.entity import Entity


class SnapshotKind(StrEnum):
    ENVIRONMENT = "environment"
    VOLUME = "volume"


class SnapshotState(StrEnum):
    OPEN = "open"
    CAPTURED = "captured"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object of a snapshot, as the one who wrote it recorded it."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Entity):
    """One capture of an environment or a volume. Each attempt is a snapshot of its own."""

    PREFIX: ClassVar[str] = "snap"

    kind: SnapshotKind
    subject_id: str
    """The environment or volume that it is a state of."""
    pod_id: str
    machine_id: str
    epoch: int
    operation_id: str
    parent_id: str | None
    state: SnapshotState = SnapshotState.OPEN
    root: StoredObject | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    captured_at: datetime | None = None
    committed_at: datetime | None = None

    @property
    def owner(self) -> str:
        return self.subject_id


def object_key(account_id: str, snapshot_id: str, name: str) -> str:
    """Where an object of a snapshot lies in its bucket."""
    return f"{account_id}/{snapshot_id}/{name}"
