"""Mark dead snapshots, and after the wait take them out of use; their objects are still there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from podferry.domain.garbage import SAFE_AGE, Mark
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState
from podferry.domain.volume import Environment, Volume
from podferry.ports.store import Change, Check, Update
from podferry.services.garbage.shift import Shift
from podferry.services.garbage.stock import Stock
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class BuryDead:
    """`deleted` is the gate: before it nothing is lost, behind it nobody can use the snapshot."""

    records: Records

    def run(self, shift: Shift, stock: Stock) -> None:
        """One look at every dead snapshot, as long as the shift may go on."""
        now = self.records.now()
        for snapshot in stock.snapshots:
            if not is_dead(snapshot):
                continue
            act = self._due(shift, snapshot, now, is_pinned=snapshot.id in stock.pinned)
            if act is None:
                continue
            if not shift.may_go_on:
                return
            act()

    def _due(
        self, shift: Shift, snapshot: Snapshot, now: datetime, *, is_pinned: bool
    ) -> Callable[[], object] | None:
        mark = snapshot.mark
        if is_pinned:
            # Whatever points to it may have used it: the wait begins anew.
            unmarked = replace(snapshot, mark=None)
            return None if mark is None else partial(shift.commit, Update(unmarked))
        if now - snapshot.created_at < SAFE_AGE:
            return None
        if mark is None or mark.at > now:
            marked = replace(snapshot, mark=Mark(at=now, round=shift.row.round))
            return partial(shift.commit, Update(marked))
        if mark.is_ripe(now, shift.row.round):
            return partial(self._delete, shift, snapshot)
        return None

    def _delete(self, shift: Shift, snapshot: Snapshot) -> None:
        unused = self._unused(snapshot)
        if unused:
            row = replace(shift.row, snapshots_deleted=shift.row.snapshots_deleted + 1)
            deleted = replace(snapshot, state=SnapshotState.DELETED)
            shift.commit_counted(row, Update(deleted), *unused)

    def _unused(self, snapshot: Snapshot) -> Sequence[Change]:
        """The proof that it is not the head at the moment of the write; empty if it is."""
        store, subject_id = self.records.store, snapshot.subject_id
        subject: Environment | Volume
        if snapshot.kind == SnapshotKind.ENVIRONMENT:
            subject = store.get(Environment, subject_id)
        else:
            subject = store.get(Volume, subject_id)
        return [] if subject.head == snapshot.id else [Check(subject)]


def is_dead(snapshot: Snapshot) -> bool:
    """Given up, or thinned out: nobody can want it any more."""
    if snapshot.state == SnapshotState.COMMITTED:
        return snapshot.expired_at is not None
    return snapshot.state == SnapshotState.ABANDONED
