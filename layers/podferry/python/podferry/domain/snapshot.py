"""Snapshots: what the engine commits, a manifest over content-addressed packs.

    open ─> captured ─> committed ─> deleted          open, captured ─> abandoned ─> deleted

`captured` is the agent's word; `committed` is ours, after verification. What is committed never
changes; when it is expired and nothing points to it, the garbage collector deletes it. A deleted
snapshot cannot be used; objects that others need still lie under it.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from podferry.domain.entity import Entity
from podferry.domain.floor import MadeOn
from podferry.domain.garbage import Mark, Sweep
from podferry.domain.image import BaseImage
from podferry.domain.pod import Setup
from podferry.domain.proof import Proof
from podferry.domain.saving import SaveKind
from podferry.domain.storage import Charge

ROOT = "root"
"""The object that names all others."""
_NAMED_BY_HASH = re.compile(r"(?:packs|pages)/([0-9a-f]{64})")


class SnapshotKind(StrEnum):
    ENVIRONMENT = "environment"
    VOLUME = "volume"


class SnapshotState(StrEnum):
    OPEN = "open"
    CAPTURED = "captured"
    COMMITTED = "committed"
    ABANDONED = "abandoned"
    DELETED = "deleted"


UNFINISHED = frozenset({SnapshotState.OPEN, SnapshotState.CAPTURED})


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
    operation_id: str | None
    """`None` for a background save: nobody asked for it."""
    parent_id: str | None
    save_kind: SaveKind = SaveKind.STOP
    label: str | None = None
    """What its user calls it; a save with a label is kept."""
    version: int | None = None
    """The number of the version that names it; such a capture is kept with its environment."""
    state: SnapshotState = SnapshotState.OPEN
    root: StoredObject | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    captured_at: datetime | None = None
    committed_at: datetime | None = None
    proven_objects: int = 0
    """Of a save that is being verified: how many of its objects are proven."""
    stored_bytes: int | None = None
    """What it added to the store, its root included, as its verification counted."""
    charge: Charge | None = None
    """Who answers for what lies below it; `None` before it is committed."""
    expired_at: datetime | None = None
    """When it was thinned out. It stays committed: newer snapshots may need its objects."""
    left_at: datetime | None = None
    """When its volume went back to another save. It is kept as if it was made then."""
    made_on: MadeOn | None = None
    """Of an environment: the system of the machine that it was captured on."""
    setup: Setup | None = None
    """Of an environment: its startup script and variables when it was captured."""
    base: BaseImage | None = None
    """Of an environment: what the machine that it was captured on had begun as."""
    proof: Proof | None = None
    """The newest restore drill that it passed."""
    mark: Mark | None = None
    """It was found dead, and waits for the second look."""
    sweep: Sweep | None = None
    stem_ids: tuple[str, ...] | None = None
    """What it hangs from since the row of its parent was dropped."""

    @property
    def owner(self) -> str:
        """Expired and deleted ones are listed apart, so that the list of a volume stays short."""
        is_past = self.expired_at is not None or self.state == SnapshotState.DELETED
        return expired_owner(self.subject_id) if is_past else self.subject_id

    @property
    def size_bytes(self) -> int:
        """Of the tree that was captured, as its agent counted."""
        return int(self.summary.get("bytes", 0))

    @property
    def is_partial(self) -> bool:
        """Its machine went before everything was captured: some files are older, or left out."""
        return bool(self.summary.get("is_partial"))

    @property
    def is_kept(self) -> bool:
        """Committed, and nothing has taken it out of its list."""
        return self.state == SnapshotState.COMMITTED and self.expired_at is None

    @property
    def is_usable(self) -> bool:
        """Whether something new may be built on it: the collector has not turned to it either.

        Its row has to be checked in the transaction that makes the use visible: a mark moves it.
        """
        return self.is_kept and self.mark is None

    @property
    def is_named(self) -> bool:
        """Its user gave it a name, and with that it is kept whatever its age."""
        return self.label is not None or self.version is not None

    @property
    def stems(self) -> tuple[str, ...]:
        """The snapshots below which objects may lie that it needs; they lead to all such."""
        if self.stem_ids is not None:
            return self.stem_ids
        return () if self.parent_id is None else (self.parent_id,)


def expired_owner(subject_id: str) -> str:
    """Where the expired snapshots of an environment or a volume are listed."""
    return f"{subject_id}#expired"


def object_key(account_id: str, snapshot_id: str, name: str) -> str:
    """Where an object of a snapshot lies in its bucket."""
    return f"{account_id}/{snapshot_id}/{name}"


def hash_in(name: str) -> str | None:
    """The SHA-256 by which the object is named; `None` for the root, and what is not ours."""
    named = _NAMED_BY_HASH.fullmatch(name)
    return None if named is None else named[1]


def is_pack(name: str) -> bool:
    """Whether the object has content of files; roots and pages only list them."""
    return name.startswith("packs/")
