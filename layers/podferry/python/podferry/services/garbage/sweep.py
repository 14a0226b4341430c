"""Delete the objects that no committed snapshot needs, prefix by prefix."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from podferry.domain.garbage import SAFE_AGE, Sweep
from podferry.domain.lineage import Lineage
from podferry.domain.manifest import NeededObject
from podferry.domain.snapshot import ROOT, Snapshot, SnapshotState, hash_in, object_key
from podferry.domain.storage import Charge
from podferry.ports.objects import ListedObject, SnapshotObjects
from podferry.ports.store import Change, Update
from podferry.services.garbage.shift import Shift
from podferry.services.garbage.stock import Stock
from podferry.services.records import Records
from podferry.services.storage import charged
from podferry.services.verification import VerifySnapshot

PAGE = 1000
"""Names in one listing and in one deletion; S3 takes no more."""
_KEPT_ROOTS = 2
Digests = dict[str, set[bytes]]


@dataclass(slots=True)
class _Found:
    """What one sweep has seen so far."""

    sweep: Sweep
    objects: int = 0
    bytes: int = 0
    needed_bytes: int | None = None
    """Of all that lies there and is needed, once all of it was listed."""


@dataclass(frozen=True, slots=True)
class SweepObjects:
    """In memory are one page of names and what two roots need, however much there is."""

    records: Records
    objects: SnapshotObjects
    verify: VerifySnapshot
    _roots: OrderedDict[str, Digests] = field(default_factory=OrderedDict)

    def run(self, shift: Shift, stock: Stock, lineage: Lineage) -> None:
        """Sweep every prefix that has not been swept for its present keepers.

        Raises:
            SnapshotError: a keeper's root cannot be read; what it needs is not known.
        """
        for snapshot in stock.snapshots:
            keepers = lineage.keepers(snapshot.id)
            if not self._is_due(snapshot, keepers):
                continue
            if not shift.may_go_on:
                return
            self._sweep(shift, snapshot, keepers)

    def _is_due(self, snapshot: Snapshot, keepers: tuple[str, ...]) -> bool:
        if snapshot.state not in {SnapshotState.COMMITTED, SnapshotState.DELETED}:
            return False
        is_charged = snapshot.charge is not None or snapshot.state == SnapshotState.DELETED
        if snapshot.sweep is not None and snapshot.sweep.kept_for == keepers and is_charged:
            return not snapshot.sweep.is_done
        return self.records.now() - snapshot.created_at >= SAFE_AGE

    def _sweep(self, shift: Shift, snapshot: Snapshot, keepers: tuple[str, ...]) -> None:
        needed = self._needed(snapshot, keepers)
        last = snapshot.sweep
        is_resumed = last is not None and last.kept_for == keepers
        found = _Found(last if last is not None and is_resumed else Sweep(kept_for=keepers))
        prefix = object_key(snapshot.account_id, snapshot.id, "")
        while True:
            page = self.objects.listed(snapshot.kind, prefix, found.sweep.up_to, PAGE)
            self._clear(snapshot, page, needed, found)
            if len(page) < PAGE:
                found.needed_bytes = found.sweep.needed_bytes
                found.sweep = _ended(found.sweep)
                break
            found.sweep = replace(found.sweep, up_to=page[-1].key)
            if not shift.may_go_on:
                break
        self._note(shift, snapshot, found)

    def _clear(
        self,
        snapshot: Snapshot,
        page: Sequence[ListedObject],
        needed: set[bytes],
        found: _Found,
    ) -> None:
        doomed = [one for one in page if not _is_needed(snapshot, one, needed)]
        oldest_young = self.records.now() - SAFE_AGE
        old = [one for one in doomed if one.stored_at <= oldest_young]
        if old:
            self.objects.delete(snapshot.kind, [one.key for one in old])
        found.objects += len(old)
        found.bytes += sum(one.size for one in old)
        needed_bytes = sum(one.size for one in page) - sum(one.size for one in doomed)
        found.sweep = replace(
            found.sweep,
            held=found.sweep.held + len(page) - len(old),
            needed_bytes=found.sweep.needed_bytes + needed_bytes,
            has_young=found.sweep.has_young or len(old) < len(doomed),
        )

    def _note(self, shift: Shift, snapshot: Snapshot, found: _Found) -> None:
        row = replace(
            shift.row,
            objects_freed=shift.row.objects_freed + found.objects,
            bytes_freed=shift.row.bytes_freed + found.bytes,
        )
        fresh = replace(self.records.store.get(Snapshot, snapshot.id), sweep=found.sweep)
        swept, sums = self._charged(fresh, found.needed_bytes)
        shift.commit_counted(row, Update(swept), *sums)

    def _charged(self, swept: Snapshot, needed_bytes: int | None) -> tuple[Snapshot, list[Change]]:
        """What is left is charged to whom it was.

        What nobody counted when it was committed is charged for the first time.
        """
        was_used = swept.charge is not None or swept.state == SnapshotState.COMMITTED
        if needed_bytes is None or not was_used:
            return swept, []
        to = swept.subject_id if swept.charge is None else swept.charge.to
        return charged(self.records, swept, Charge(to=to, bytes=needed_bytes))

    def _needed(self, snapshot: Snapshot, keepers: tuple[str, ...]) -> set[bytes]:
        needed: set[bytes] = set()
        for keeper in keepers:
            needed |= self._digests(keeper).get(snapshot.id, set())
        return needed

    def _digests(self, keeper_id: str) -> Digests:
        """What a committed snapshot needs, by the snapshot that stored it."""
        if keeper_id not in self._roots:
            keeper = self.records.store.get(Snapshot, keeper_id)
            self._roots[keeper_id] = by_snapshot(self.verify.read_root(keeper).needed)
            if len(self._roots) > _KEPT_ROOTS:
                self._roots.popitem(last=False)
        return self._roots[keeper_id]


def by_snapshot(needed: Iterable[NeededObject]) -> Digests:
    """The hashes that are needed of each snapshot, as bytes: names take several times as much."""
    digests: Digests = {}
    for one in needed:
        digests.setdefault(one.snapshot_id, set()).add(bytes.fromhex(one.sha256))
    return digests


def _ended(sweep: Sweep) -> Sweep:
    if sweep.has_young:
        return Sweep(kept_for=sweep.kept_for)
    return replace(sweep, up_to=None, is_done=True)


def _is_needed(snapshot: Snapshot, listed: ListedObject, needed: set[bytes]) -> bool:
    name = listed.key.removeprefix(object_key(snapshot.account_id, snapshot.id, ""))
    if name == ROOT:
        return snapshot.state == SnapshotState.COMMITTED
    named = hash_in(name)
    # What is not named like an object of ours was not put there by us.
    return named is None or bytes.fromhex(named) in needed
