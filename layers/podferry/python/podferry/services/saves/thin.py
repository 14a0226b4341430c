"""Thin out the older saves of a volume; their objects are left to the garbage collector."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import timedelta

from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.retention import Point, expired
from podferry.domain.saving import SaveKind
from podferry.domain.snapshot import UNFINISHED, Snapshot, SnapshotKind, SnapshotState
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Check, Update
from podferry.services.records import Records

EVERY = timedelta(hours=1)
MOST_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class ThinSaves:
    """Keeps what `domain/retention.py` keeps, and what something may still point to."""

    records: Records

    def run_if_due(self, volume: Volume) -> int:
        """Look through the saves, once an hour; how many have expired."""
        now = self.records.now()
        if volume.thinned_at is not None and now - volume.thinned_at < EVERY:
            return 0
        saves = list(self.records.all_owned(Snapshot, volume.id, newest_first=True))
        gone = sorted(expired(points_of(saves, self._pinned(volume, saves)), now))
        for snapshot_id in gone[:MOST_AT_ONCE]:
            expire(self.records, snapshot_id)
        if len(gone) <= MOST_AT_ONCE:
            self.records.apply(lambda: self._noted(volume.id))
        return min(len(gone), MOST_AT_ONCE)

    def _pinned(self, volume: Volume, newest_first: Sequence[Snapshot]) -> set[str | None]:
        """Heads, the newest stop, and what is being restored."""
        stops = [
            save.id
            for save in newest_first
            if save.state == SnapshotState.COMMITTED and save.save_kind == SaveKind.STOP
        ]
        return {*volume.pins, *stops[:1], self._restored(volume)}

    def _restored(self, volume: Volume) -> str | None:
        """What the operation at work on the volume's pod restores or has captured."""
        if volume.lease is None:
            return None
        operation_id = self.records.store.get(Pod, volume.lease.pod_id).operation_id
        if operation_id is None:
            return None
        return self.records.store.get(Operation, operation_id).volume_snapshot_id

    def _noted(self, volume_id: str) -> Sequence[Change]:
        volume = self.records.store.get(Volume, volume_id)
        return [Update(replace(volume, thinned_at=self.records.now()))]


def points_of(snapshots: Sequence[Snapshot], pinned: AbstractSet[str | None]) -> list[Point]:
    """The committed ones. Labels, versions and what is being built on are pinned as well."""
    kept = pinned | {one.parent_id for one in snapshots if one.state in UNFINISHED}
    return [
        Point(
            one.id,
            one.left_at or one.committed_at or one.created_at,
            is_pinned=one.is_named or one.id in kept,
        )
        for one in snapshots
        if one.state == SnapshotState.COMMITTED
    ]


def expire(records: Records, snapshot_id: str, *, is_kept_by_name: bool = True) -> None:
    """Nobody is shown it any more; the garbage collector may take it.

    What got a name since it was chosen stays, unless names count for nothing any more.
    """

    def plan() -> Sequence[Change]:
        snapshot = records.store.get(Snapshot, snapshot_id)
        if snapshot.expired_at is not None or (snapshot.is_named and is_kept_by_name):
            return []
        expired = Update(replace(snapshot, expired_at=records.now()))
        if snapshot.kind == SnapshotKind.ENVIRONMENT:
            return [expired]
        volume = records.store.get(Volume, snapshot.subject_id)
        # Its user may have gone back to it since it was chosen.
        return [] if snapshot_id in volume.pins else [expired, Check(volume)]

    records.apply(plan)
