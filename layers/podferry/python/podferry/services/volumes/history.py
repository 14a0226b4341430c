"""Go back in a volume's history, or go on from a point of it in another volume."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.errors import NotFoundError, WrongStateError
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.domain.use_of_volume import require_free
from podferry.domain.volume import Origin, Volume
from podferry.ports.store import Change, Check, Create, Update
from podferry.services.records import Records
from podferry.services.restorable import restorable
from podferry.services.volumes.rules import usable


@dataclass(frozen=True, slots=True)
class RestoreVolume:
    """The head moves to a save of the volume; what it was before stays in the history.

    Nothing is read or copied: a start restores what the head names.
    """

    records: Records

    def restore(self, account_id: str, volume_id: str, snapshot_id: str) -> None:
        """Move the head, by a write that fails if a machine takes the volume meanwhile.

        Raises:
            NotFoundError: no such volume, or no such save of it that can be restored.
            WrongStateError: the volume is in the trash.
            VolumeBusyError: a pod's machine may write it; names the pod.
            ConflictError: the rows kept moving.
        """
        self.records.apply(lambda: self._plan(account_id, volume_id, snapshot_id))

    def _plan(self, account_id: str, volume_id: str, snapshot_id: str) -> Sequence[Change]:
        volume = usable(self.records, account_id, volume_id)
        require_free(volume)
        save = save_of(self.records, volume, snapshot_id)
        if volume.head == save.id:
            return []
        state, checks = state_of(self.records, save)
        event = self.records.volume_event(
            volume, "volume.restored", "user", head=save.id, before=volume.head
        )
        return [Update(replace(volume, **state)), *checks, *self._left(volume), event]

    def _left(self, volume: Volume) -> list[Change]:
        """The state before counts as new in the history, however old it is."""
        if volume.head is None:
            return []
        head = self.records.store.find(Snapshot, volume.head)
        if head is None or head.subject_id != volume.id:
            return []  # What a fork began with: it is kept as long as the fork.
        return [Update(replace(head, left_at=self.records.now()))]


@dataclass(frozen=True, slots=True)
class ForkVolume:
    """A new volume whose head is a save of another one; both go on by themselves.

    Nothing is read or copied, however large the volume is. Its head and its origin pin the save,
    and lineage keeps what the saves that follow need of it.
    """

    records: Records

    def fork(
        self, account_id: str, volume_id: str, snapshot_id: str | None, name: str | None
    ) -> Volume:
        """Make the new volume; without `snapshot_id` from the newest save.

        Raises:
            NotFoundError: no such volume, or no such save of it that can be restored.
            WrongStateError: the volume is in the trash, or was never saved.
            ConflictError: the save moved at the same moment.
        """
        source = usable(self.records, account_id, volume_id)
        chosen = snapshot_id or source.head
        if chosen is None:
            raise WrongStateError(f"volume {source.id} was never saved; there is nothing to fork")
        fork_id = self.records.new_id(Volume)
        self.records.apply(lambda: self._plan(source, fork_id, chosen, name or source.name))
        return self.records.store.get(Volume, fork_id)

    def _plan(self, source: Volume, fork_id: str, chosen: str, name: str) -> Sequence[Change]:
        save = save_of(self.records, source, chosen)
        state, checks = state_of(self.records, save)
        fork = Volume(
            id=fork_id,
            account_id=source.account_id,
            created_at=self.records.now(),
            name=name,
            forked_from=Origin(volume_id=source.id, snapshot_id=save.id),
            **state,
        )
        event = self.records.volume_event(
            fork, "volume.forked", "user", volume_id=source.id, snapshot_id=save.id
        )
        return [Create(fork), *checks, event]


def save_of(records: Records, volume: Volume, snapshot_id: str) -> Snapshot:
    """A save that the volume can go on from: of its history, or what it began with.

    Raises:
        NotFoundError: it is none of the volume's, or it has expired.
    """
    save = restorable(records, volume.account_id, snapshot_id, pinned=volume.pins)
    origin = None if volume.forked_from is None else volume.forked_from.snapshot_id
    if save.subject_id != volume.id and snapshot_id != origin:
        raise NotFoundError(f"snapshot {snapshot_id} is not a save of volume {volume.id}")
    return save


def state_of(records: Records, save: Snapshot) -> tuple[dict[str, Any], list[Change]]:
    """What a volume's row says when the save is its head, and the rows that must not move."""
    whole = _whole_before(records, save) if save.is_partial else None
    newest = whole if save.is_partial else save
    state = {
        "head": save.id,
        "whole_head": None if whole is None else whole.id,
        "saved_at": None if newest is None else newest.created_at,
        "size_bytes": save.size_bytes,
    }
    return state, [Check(one) for one in (save, whole) if one is not None]


def _whole_before(records: Records, save: Snapshot) -> Snapshot | None:
    """The newest whole save that a partial one was made on, if there still is one."""
    at: Snapshot | None = save
    while at is not None and at.is_partial:
        at = None if at.parent_id is None else records.store.find(Snapshot, at.parent_id)
    is_there = at is not None and at.state == SnapshotState.COMMITTED and at.mark is None
    return at if is_there else None
