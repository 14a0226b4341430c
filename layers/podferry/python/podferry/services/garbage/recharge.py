"""Who answers for what is stored, when the one that stored it needs it no more."""

from collections import defaultdict
from dataclasses import dataclass, replace

from podferry.domain.lineage import Lineage
from podferry.domain.snapshot import Snapshot
from podferry.ports.store import Update
from podferry.services.garbage.shift import Shift
from podferry.services.garbage.stock import Stock
from podferry.services.records import Records
from podferry.services.storage import charged


@dataclass(frozen=True, slots=True)
class MoveCharges:
    """To the oldest environment or volume that needs it; of a volume's own saves to itself."""

    records: Records

    def run(self, shift: Shift, stock: Stock, lineage: Lineage) -> None:
        """Look at all that is charged, as long as the shift may go on."""
        needing = _needing(stock, lineage)
        for snapshot in stock.snapshots:
            if snapshot.charge is None or not snapshot.charge.bytes:
                continue
            heir = _heir(snapshot, snapshot.charge.to, needing[snapshot.id])
            if heir == snapshot.charge.to:
                continue
            if not shift.may_go_on:
                return
            self._move(shift, snapshot.id, heir)

    def _move(self, shift: Shift, snapshot_id: str, heir: str) -> None:
        fresh = self.records.store.get(Snapshot, snapshot_id)
        if fresh.charge is None:
            return
        moved, sums = charged(self.records, fresh, replace(fresh.charge, to=heir))
        shift.commit(Update(moved), *sums)


def _needing(stock: Stock, lineage: Lineage) -> dict[str, set[str]]:
    """Who may need what lies below each snapshot: its users, and those of what descends from it.

    Below one that its own volume or environment can still go back to nobody has to be asked.
    """
    users = _users(stock)
    listed = {one.id for one in stock.snapshots if one.is_kept}
    needing: dict[str, set[str]] = {}
    todo = [snapshot.id for snapshot in stock.snapshots]
    while todo:
        at = todo[-1]
        below = () if at in listed else lineage.children(at)
        waiting = [child for child in below if child not in needing]
        if waiting:
            todo += waiting
            continue
        needing[at] = users[at].union(*(needing[child] for child in below))
        todo.pop()
    return needing


def _users(stock: Stock) -> dict[str, set[str]]:
    """Who would lose something with each snapshot: in whose list it is, and who names it."""
    users: dict[str, set[str]] = defaultdict(set)
    for snapshot in stock.snapshots:
        if snapshot.is_kept:
            users[snapshot.id] |= {snapshot.subject_id} & stock.living.keys()
    for subject_id, named in stock.living.items():
        for snapshot_id in named:
            users[snapshot_id].add(subject_id)
    return users


def _heir(snapshot: Snapshot, present: str, needing: set[str]) -> str:
    """What nobody needs stays where it is until it is deleted."""
    if not needing or snapshot.subject_id in needing:
        return snapshot.subject_id if needing else present
    return present if present in needing else min(needing)
