"""Empty the trash: a volume that was deleted a week ago is given to the garbage collector."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Update
from podferry.services.records import Records
from podferry.services.saves.thin import expire


@dataclass(frozen=True, slots=True)
class EmptyTrash:
    """All that it does is to let go: what forks need stays, as with any expired save."""

    records: Records

    def run_if_due(self, volume: Volume) -> None:
        """Let go of the saves of a volume whose time in the trash is over; may be repeated."""
        if volume.gone_from is None or self.records.now() < volume.gone_from:
            return
        self.records.apply(lambda: self._purged(volume.id))
        if self.records.store.get(Volume, volume.id).purged_at is None:
            return
        for save in self.records.all_owned(Snapshot, volume.id):
            if save.state == SnapshotState.COMMITTED:
                expire(self.records, save.id, is_kept_by_name=False)

    def _purged(self, volume_id: str) -> Sequence[Change]:
        volume = self.records.store.get(Volume, volume_id)
        # It may have been taken back since it was listed.
        if volume.trashed_at is None or volume.purged_at is not None:
            return []
        purged = replace(
            volume,
            head=None,
            whole_head=None,
            forked_from=None,
            size_bytes=0,
            purged_at=self.records.now(),
        )
        event = self.records.volume_event(volume, "volume.purged", "schedule", head=volume.head)
        return [Update(purged), event]
