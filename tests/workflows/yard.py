"""Volumes, their captures and the collector, without pods: histories as strange as one likes."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from crashing_store import Crash
from world import World

from podferry.domain.garbage import Collector
from podferry.domain.operation import Cause, Operation, OperationKind, OperationState
from podferry.domain.snapshot import (
    Snapshot,
    SnapshotKind,
    SnapshotState,
    StoredObject,
    expired_owner,
    object_key,
)
from podferry.domain.volume import Volume
from podferry.ports.store import Create, Update
from podferry.services.garbage.shift import COLLECTOR_ID
from podferry.services.storage import charged_first

KIND = SnapshotKind.VOLUME
UNFINISHED = {SnapshotState.OPEN, SnapshotState.CAPTURED}
Pack = tuple[str, bytes]
"""The snapshot that stores it, and its bytes."""
LONG = 7
"""Days after which nothing is left to do: age, mark, wait, sweep, forget."""


class Yard:
    """Captures are verified by the real verification, so that only real ones become committed."""

    def __init__(self) -> None:
        self.world = World()
        self.store = self.world.store
        self.records = self.world.app.records
        self.packs: dict[str, tuple[Pack, ...]] = {}
        """What each snapshot needs."""
        self._serial = 0

    # Captures

    def volume(self, head: str | None = None) -> str:
        volume = Volume(
            id=self.records.new_id(Volume),
            account_id=self.world.account.id,
            created_at=self.records.now(),
            name="data",
            head=head,
        )
        self.store.commit(Create(volume))
        return volume.id

    def begin(self, volume_id: str, *, is_whole: bool = False) -> str:
        """An upload session: an open snapshot on the volume's head."""
        volume = self.store.get(Volume, volume_id)
        snapshot = Snapshot(
            id=self.records.new_id(Snapshot),
            account_id=self.world.account.id,
            created_at=self.records.now(),
            kind=KIND,
            subject_id=volume_id,
            pod_id="pod_none",
            machine_id="mach_none",
            epoch=1,
            operation_id=None,
            parent_id=None if is_whole else volume.head,
        )
        self.store.commit(Create(snapshot))
        self.packs[snapshot.id] = ()
        return snapshot.id

    def upload(self, snapshot_id: str, count: int = 1) -> None:
        """Packs of its own; without `take` its root does not name them."""
        for _ in range(count):
            self._serial += 1
            self._put(snapshot_id, b"pack %d" % self._serial)
            self.packs[snapshot_id] += ((snapshot_id, b"pack %d" % self._serial),)

    def waste(self, snapshot_id: str) -> None:
        """What a try that was killed has left: stored, and named by no root."""
        self._serial += 1
        self._put(snapshot_id, b"waste %d" % self._serial)

    def _put(self, snapshot_id: str, body: bytes) -> None:
        self.world.objects.put(KIND, self._key(snapshot_id, body), body)

    def _key(self, snapshot_id: str, body: bytes) -> str:
        return object_key(self.world.account.id, snapshot_id, f"packs/{_sha(body)}")

    def keep(self, snapshot_id: str, every: int = 1) -> None:
        """Go on needing every n-th pack of the parent."""
        parent = self.snapshot(snapshot_id).parent_id
        if parent is not None:
            self.packs[snapshot_id] += self.packs[parent][::every]

    def commit(self, snapshot_id: str) -> None:
        """The root, the verification, the head."""
        snapshot = self.snapshot(snapshot_id)
        root = self._root(snapshot)
        key = object_key(snapshot.account_id, snapshot.id, "root")
        self.world.objects.put(KIND, key, root)
        stored = StoredObject(name="root", size=len(root), sha256=_sha(root))
        captured = replace(snapshot, state=SnapshotState.CAPTURED, root=stored)
        self.store.commit(Update(captured))
        captured = self.snapshot(snapshot_id)
        verdict = self.world.app.verify_snapshot.run([captured], None, trust_parents=True)
        assert verdict.cursor is None
        volume = self.store.get(Volume, snapshot.subject_id)
        committed = replace(
            captured, state=SnapshotState.COMMITTED, stored_bytes=verdict.stored_bytes[snapshot_id]
        )
        charged, sums = charged_first(self.records, committed)
        self.store.commit(Update(charged), *sums, Update(replace(volume, head=snapshot_id)))

    def _root(self, snapshot: Snapshot) -> bytes:
        entries = [
            {"snapshot_id": owner, "sha256": _sha(body), "size": len(body)}
            for owner, body in self.packs[snapshot.id]
        ]
        root = {
            "format": 1,
            "kind": KIND,
            "snapshot_id": snapshot.id,
            "parent": snapshot.parent_id,
            "pages": [],
            "packs": entries,
            "counts": {"entries": 0, "files": 0, "bytes": 0},
        }
        return json.dumps(root).encode()

    def save(self, volume_id: str, *, every: int = 1, is_whole: bool = False) -> str:
        """A whole capture: what the parent has, or every n-th of it, and one pack more."""
        snapshot_id = self.begin(volume_id, is_whole=is_whole)
        self.keep(snapshot_id, every)
        self.upload(snapshot_id)
        self.commit(snapshot_id)
        return snapshot_id

    def abandon(self, snapshot_id: str) -> None:
        self.store.commit(
            Update(replace(self.snapshot(snapshot_id), state=SnapshotState.ABANDONED))
        )

    def expire(self, snapshot_id: str) -> None:
        expired = replace(self.snapshot(snapshot_id), expired_at=self.records.now())
        self.store.commit(Update(expired))

    def operation(self, snapshot_id: str) -> Operation:
        """A start that restores it."""
        operation = Operation(
            id=self.records.new_id(Operation),
            account_id=self.world.account.id,
            created_at=self.records.now(),
            pod_id="pod_none",
            kind=OperationKind.START,
            cause=Cause.USER,
            volume_snapshot_id=snapshot_id,
        )
        self.store.commit(Create(operation))
        return operation

    def end(self, operation: Operation) -> None:
        self.store.commit(Update(replace(operation, state=OperationState.SUCCEEDED)))

    # Looking

    def snapshot(self, snapshot_id: str) -> Snapshot:
        return self.store.get(Snapshot, snapshot_id)  # type: ignore[no-any-return]

    def snapshots(self) -> list[Snapshot]:
        return [
            snapshot
            for volume in self.volumes()
            for owner in (volume.id, expired_owner(volume.id))
            for snapshot in self.store.list_owned(Snapshot, owner, limit=1000).items
        ]

    def volumes(self) -> list[Volume]:
        """Deleted ones, too."""
        return list(self.store.list_owned(Volume, self.world.account.id, limit=1000).items)

    def heads(self) -> set[str]:
        return {volume.head for volume in self.volumes() if volume.head is not None}

    def collector(self) -> Collector:
        return self.store.get(Collector, COLLECTOR_ID)  # type: ignore[no-any-return]

    def missing(self) -> list[str]:
        """Objects that a committed snapshot needs and that are not there."""
        there = set(self.keys())
        return [key for key in self._needed_keys() if key not in there]

    def needless(self) -> set[str]:
        return set(self.keys()) - set(self._needed_keys())

    def keys(self) -> list[str]:
        """What is in the store."""
        return list(self.world.objects.keys(KIND))

    def stored_bytes(self) -> int:
        """Of all that is in the store."""
        return sum(one.size for one in self.world.objects.listed(KIND, "", None, 10**6))

    def charged_bytes(self) -> dict[str, int]:
        """What each volume answers for."""
        return self.world.app.read_storage.of_each(self.world.account.id)

    def needed_by(self, snapshot_id: str) -> Iterable[str]:
        """The objects that a restore of it reads."""
        yield object_key(self.world.account.id, snapshot_id, "root")
        yield from (self._key(*pack) for pack in self.packs[snapshot_id])

    def _needed_keys(self) -> Iterable[str]:
        for snapshot in self.snapshots():
            if snapshot.state == SnapshotState.COMMITTED:
                yield from self.needed_by(snapshot.id)

    # The collector

    def pass_days(self, days: float) -> None:
        self.world.clock.advance(timedelta(days=days))

    def round(self, has_time: Any = lambda: True) -> dict[str, Any]:
        """One run, which may die."""
        try:
            return self.world.app.collect_garbage.run(has_time)
        except Crash:
            self.world.crashes += 1
            return {}

    def rounds(self, days: int) -> None:
        for _ in range(days):
            self.pass_days(1)
            self.round()


def a_history(yard):
    """Four saves, of which the first and the third are expired, and one that was given up.

    The second has a label, so that it is not thinned for its age; the fourth is the head.
    """
    volume = yard.volume()
    saves = [yard.save(volume), *(yard.save(volume, every=2) for _ in range(3))]
    given_up = yard.begin(volume)
    yard.upload(given_up, 3)
    yard.abandon(given_up)
    yard.expire(saves[0])
    yard.expire(saves[2])
    yard.store.commit(Update(replace(yard.snapshot(saves[1]), label="kept")))
    return volume, saves, given_up


def _sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
