"""Prove that a snapshot can be restored: read the root back, look up every object it needs.

The work is cut into shares that fit a function's time; a cursor carries it on.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from podferry.domain.errors import (
    InternalError,
    SnapshotCorruptError,
    SnapshotMissingError,
)
from podferry.domain.manifest import NeededObject, RootManifest, parse_root
from podferry.domain.snapshot import Snapshot, SnapshotState, object_key
from podferry.ports.objects import ObjectFacts, SnapshotObjects
from podferry.services.records import Records

SHARE = 4000
"""Objects looked up in one run: at 16 at a time and 50 ms each about 13 s."""
PARALLEL = 16


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where to go on: the n-th snapshot and how many of its objects are proven."""

    snapshot: int
    objects: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """`cursor` is `None` when everything is proven."""

    cursor: Cursor | None
    proven_objects: int
    stored_bytes: Mapping[str, int] = field(default_factory=dict)
    """What each snapshot that was looked at added to the store, its root included."""

    def as_state(self) -> dict[str, Any]:
        """The form in which a workflow carries it."""
        cursor = None
        if self.cursor is not None:
            cursor = {"snapshot": self.cursor.snapshot, "objects": self.cursor.objects}
        return {"is_done": cursor is None, "cursor": cursor, "proven": self.proven_objects}


@dataclass(frozen=True, slots=True)
class VerifySnapshot:
    """The only judge of whether a snapshot may be relied on."""

    records: Records
    objects: SnapshotObjects

    def run(
        self,
        snapshots: Sequence[Snapshot],
        cursor: Cursor | None,
        *,
        trust_parents: bool,
        share: int = SHARE,
    ) -> Verdict:
        """Verify one share of the snapshots' objects.

        With `trust_parents` objects that a committed parent needs are not looked up again: they
        were proven when it was committed, and nothing but the garbage collector can delete. It is
        for captures. Without it every object is looked up, and no parent is asked: that of a
        committed snapshot may be deleted.

        Raises:
            SnapshotMissingError: an object is not in the store; names it.
            SnapshotCorruptError: an object has another size or checksum than recorded.
        """
        at = cursor or Cursor(snapshot=0, objects=0)
        stored: dict[str, int] = {}
        for index in range(at.snapshot, len(snapshots)):
            snapshot = snapshots[index]
            start = at.objects if index == at.snapshot else 0
            root = self.read_root(snapshot)
            stored[snapshot.id] = root.own_bytes + _root_size(snapshot)
            todo = self._to_prove(snapshot, root, trust_parents=trust_parents)
            looked_up = todo[start : start + share]
            self.look_up(snapshot, looked_up)
            if start + len(looked_up) < len(todo):
                return Verdict(Cursor(index, start + len(looked_up)), len(looked_up), stored)
        return Verdict(None, sum(1 for _ in snapshots), stored)

    def read_root(self, snapshot: Snapshot) -> RootManifest:
        """The root as recorded by the agent, read back and compared.

        Raises:
            SnapshotMissingError, SnapshotCorruptError.
        """
        root = parse_root(self.root_body(snapshot))
        claimed = (root.kind, root.snapshot_id, root.parent_id)
        if claimed != (snapshot.kind, snapshot.id, snapshot.parent_id):
            raise SnapshotCorruptError(
                f"snapshot {snapshot.id}: root belongs to {root.kind} {root.snapshot_id} "
                f"with parent {root.parent_id}"
            )
        return root

    def root_body(self, snapshot: Snapshot) -> bytes:
        """The root object, compared with what the agent recorded.

        Raises:
            SnapshotMissingError, SnapshotCorruptError.
        """
        if snapshot.root is None:
            raise InternalError(f"snapshot {snapshot.id} is {snapshot.state} but has no root")
        key = object_key(snapshot.account_id, snapshot.id, snapshot.root.name)
        body = self.objects.read(snapshot.kind, key)
        if hashlib.sha256(body).hexdigest() != snapshot.root.sha256:
            raise SnapshotCorruptError(
                f"snapshot {snapshot.id}: root is not what the agent recorded"
            )
        return body

    def look_up(self, snapshot: Snapshot, share: Sequence[NeededObject]) -> None:
        """Ask the store for size and checksum of each.

        Raises:
            SnapshotMissingError, SnapshotCorruptError: names the first that is not as recorded.
        """
        look_at_each(share, partial(self._look_up_one, snapshot))

    def _to_prove(
        self, snapshot: Snapshot, root: RootManifest, *, trust_parents: bool
    ) -> list[NeededObject]:
        needed = root.needed
        if not trust_parents:
            return list(needed)
        known = self._needed_by_parent(snapshot)
        foreign = [n for n in needed if n.snapshot_id != snapshot.id and n not in known]
        if foreign:
            raise SnapshotCorruptError(
                f"snapshot {snapshot.id} needs {foreign[0].name} of {foreign[0].snapshot_id}, "
                "which its parent does not have"
            )
        return [n for n in needed if n not in known]

    def _needed_by_parent(self, snapshot: Snapshot) -> frozenset[NeededObject]:
        if snapshot.parent_id is None:
            return frozenset()
        parent = self.records.store.get(Snapshot, snapshot.parent_id)
        if parent.state != SnapshotState.COMMITTED:
            raise SnapshotCorruptError(
                f"snapshot {snapshot.id}: its parent {parent.id} is {parent.state}"
            )
        return frozenset(self.read_root(parent).needed)

    def _look_up_one(self, snapshot: Snapshot, needed: NeededObject) -> None:
        key = object_key(snapshot.account_id, needed.snapshot_id, needed.name)
        facts = self.objects.facts(snapshot.kind, key)
        if facts is None:
            raise SnapshotMissingError(
                f"snapshot {snapshot.id}: {needed.name} of {needed.snapshot_id} is not in the store"
            )
        check_facts(snapshot, needed, facts)


def _root_size(snapshot: Snapshot) -> int:
    return 0 if snapshot.root is None else snapshot.root.size


def look_at_each(share: Sequence[NeededObject], look: Callable[[NeededObject], None]) -> None:
    """Several at a time; of their errors the first one, in the order of the objects, is raised."""
    if not share:
        return
    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        for _ in pool.map(look, share):
            pass


def check_facts(snapshot: Snapshot, needed: NeededObject, facts: ObjectFacts) -> None:
    """Raises: SnapshotCorruptError."""
    if (facts.size, facts.sha256) != (needed.size, needed.sha256):
        raise SnapshotCorruptError(
            f"snapshot {snapshot.id}: {needed.name} of {needed.snapshot_id} has "
            f"{facts.size} bytes and SHA-256 {facts.sha256}, recorded are {needed.size} bytes"
        )
