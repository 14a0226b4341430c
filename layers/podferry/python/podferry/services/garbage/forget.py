"""Drop the rows of deleted snapshots under which nothing lies any more."""

from dataclasses import dataclass, replace

from podferry.domain.lineage import Lineage
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.ports.store import Change, Delete, Update
from podferry.services.garbage.shift import Shift
from podferry.services.garbage.stock import Stock
from podferry.services.records import Records

MOST_CHILDREN = 90
"""They are rewritten in the transaction that drops the row."""


@dataclass(frozen=True, slots=True)
class ForgetRows:
    """What is left of a volume that is saved every minute are its saves, not its history."""

    records: Records

    def run(self, shift: Shift, stock: Stock, lineage: Lineage) -> None:
        """Drop every row that an earlier round left empty, as long as the shift may go on."""
        for listed in stock.snapshots:
            if not is_empty(listed):
                continue
            if not shift.may_go_on:
                return
            self._forget(shift, listed.id, lineage)

    def _forget(self, shift: Shift, snapshot_id: str, lineage: Lineage) -> None:
        children = lineage.children(snapshot_id)
        if len(children) > MOST_CHILDREN:
            return
        snapshot = self.records.store.get(Snapshot, snapshot_id)
        grafted = [self._grafted(child, snapshot) for child in children]
        if shift.commit(Delete(snapshot), *grafted):
            lineage.remove(snapshot.id, snapshot.stems)

    def _grafted(self, child_id: str, parent: Snapshot) -> Change:
        """The child hangs from its parent's parent, so that the way down stays whole."""
        child = self.records.store.get(Snapshot, child_id)
        others = [stem for stem in child.stems if stem != parent.id]
        return Update(replace(child, stem_ids=(*parent.stems, *others)))


def is_empty(snapshot: Snapshot) -> bool:
    """All that lay under it is gone, and nobody may put anything there."""
    sweep = snapshot.sweep
    is_bare = sweep is not None and sweep.is_done and sweep.held == 0
    return is_bare and snapshot.state == SnapshotState.DELETED
