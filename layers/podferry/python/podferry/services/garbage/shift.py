"""One run of the garbage collector: how long it may go on, and its fence against another run."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from podferry.domain.entity import NO_ACCOUNT
from podferry.domain.errors import ConflictError
from podferry.domain.event import Event
from podferry.domain.garbage import Collector
from podferry.ports.store import Change, Check, Create, Update
from podferry.services.records import Records

COLLECTOR_ID = "gc_collector"


@dataclass(slots=True)
class Shift:
    """Every write of a run stands on the collector's row; the next run moves it at its start.

    So a run that hangs and comes back after another one began can write nothing any more.
    """

    records: Records
    has_time: Callable[[], bool]
    row: Collector
    is_overtaken: bool = False

    @property
    def may_go_on(self) -> bool:
        return not self.is_overtaken and self.has_time()

    def commit(self, *changes: Change) -> bool:
        """Write, unless a row has moved; what moved has its turn in the next round."""
        return self._is_written(*changes, Check(self.row))

    def commit_counted(self, row: Collector, *changes: Change) -> bool:
        """Like `commit`, with a change of the collector's row."""
        if not self._is_written(*changes, Update(row)):
            return False
        self.row = replace(row, revision=row.revision + 1)
        return True

    def _is_written(self, *changes: Change) -> bool:
        try:
            self.records.store.commit(*changes)
        except ConflictError:
            stored = self.records.store.get(Collector, COLLECTOR_ID)
            self.is_overtaken = stored.revision != self.row.revision
            return False
        return True


def begin(records: Records, has_time: Callable[[], bool]) -> Shift:
    """Go on with the round that is not finished, or begin the next one.

    Raises:
        ConflictError: another run began at the same moment.
    """
    row = records.store.find(Collector, COLLECTOR_ID)
    if row is None:
        row = Collector(id=COLLECTOR_ID, account_id=NO_ACCOUNT, created_at=records.now())
        records.store.commit(Create(row))
    if row.round == 0 or row.finished_at is not None:
        row = replace(
            row,
            round=row.round + 1,
            finished_at=None,
            done=None,
            snapshots_deleted=0,
            objects_freed=0,
            bytes_freed=0,
        )
    row = replace(row, runs=row.runs + 1)
    records.store.commit(Update(row))
    return Shift(records, has_time, replace(row, revision=row.revision + 1))


def finish(shift: Shift) -> bool:
    """End the round and tell what it freed."""
    records, row = shift.records, shift.row
    told = Event(
        id=records.new_id(Event),
        account_id=NO_ACCOUNT,
        created_at=records.now(),
        subject_id=COLLECTOR_ID,
        type="garbage.collected",
        cause="schedule",
        evidence={
            "round": row.round,
            "runs": row.runs,
            "snapshots": row.snapshots_deleted,
            "objects": row.objects_freed,
            "bytes": row.bytes_freed,
        },
    )
    return shift.commit_counted(replace(row, finished_at=records.now(), runs=0), Create(told))
