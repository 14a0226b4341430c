"""Thin out the older saves of a volume; their objects are left to the garbage collector."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.retention import Point, expired
from podferry.domain.saving import SaveKind
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Update
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
        pinned = self._pinned(volume, saves)
        points = [
            Point(s.id, s.committed_at or s.created_at, is_pinned=s.id in pinned)
            for s in saves
            if s.state == SnapshotState.COMMITTED
        ]
        gone = sorted(expired(points, now))
        for snapshot_id in gone[:MOST_AT_ONCE]:
            expire(self.records, snapshot_id)
        if len(gone) <= MOST_AT_ONCE:
            self.records.apply(lambda: self._noted(volume.id))
        return min(len(gone), MOST_AT_ONCE)

    def _pinned(self, volume: Volume, newest_first: Sequence[Snapshot]) -> set[str | None]:
        """Heads, the newest stop, what has a label, what is being built on or restored."""
        committed = [s for s in newest_first if s.state == SnapshotState.COMMITTED]
        stops = [s.id for s in committed if s.save_kind == SaveKind.STOP]
        unfinished = {SnapshotState.OPEN, SnapshotState.CAPTURED}
        return {
            volume.head,
            volume.whole_head,
            *stops[:1],
            *(s.id for s in committed if s.label is not None),
            *(s.parent_id for s in newest_first if s.state in unfinished),
            self._restored(volume),
        }

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


def expire(records: Records, snapshot_id: str) -> None:
    """Nobody is shown it any more; the garbage collector may take it."""

    def plan() -> Sequence[Change]:
        snapshot = records.store.get(Snapshot, snapshot_id)
        if snapshot.expired_at is not None:
            return []
        return [Update(replace(snapshot, expired_at=records.now()))]

    records.apply(plan)
