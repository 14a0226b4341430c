"""What there is of one kind in one account, and what of it somebody points to."""

from collections.abc import Iterator
from dataclasses import dataclass

from podferry.domain.operation import Operation
from podferry.domain.snapshot import UNFINISHED, Snapshot, SnapshotKind, expired_owner
from podferry.domain.volume import Environment, Volume
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class Stock:
    """Snapshots, dead and alive."""

    snapshots: tuple[Snapshot, ...]
    heads: frozenset[str]
    pinned: frozenset[str]
    """Heads, what a volume can be taken back to though it is not in its list, what an operation
    at work has to do with, what an unfinished capture builds on."""
    living: dict[str, frozenset[str]]
    """The environments or volumes that are not deleted for good, and which snapshots they name."""


def take_stock(records: Records, account_id: str, kind: SnapshotKind) -> Stock:
    """Read it all from the table. Rows that begin meanwhile build on heads, which are kept."""
    subjects = list(_subjects(records, account_id, kind))
    found: dict[str, Snapshot] = {}
    for subject in subjects:
        # A row that expires meanwhile goes from the first list to the second.
        for owner in (subject.id, expired_owner(subject.id)):
            found |= {one.id: one for one in records.all_owned(Snapshot, owner)}
    heads = frozenset(subject.head for subject in subjects if subject.head is not None)
    pinned = heads | _pins(subjects) | _at_work(records, account_id, found) | _built_on(found)
    living = {subject.id: _named(subject) for subject in subjects if _is_living(subject)}
    return Stock(tuple(found[one] for one in sorted(found)), heads, pinned, living)


def _subjects(
    records: Records, account_id: str, kind: SnapshotKind
) -> Iterator[Environment | Volume]:
    if kind == SnapshotKind.ENVIRONMENT:
        yield from records.all_owned(Environment, account_id)
    else:
        yield from records.all_owned(Volume, account_id)


def _at_work(records: Records, account_id: str, found: dict[str, Snapshot]) -> set[str]:
    """What operations restore or capture, also in tries that failed."""
    operations = {o.id: o for o in records.store.list_active(Operation)}
    pins = {
        pin for o in operations.values() if o.account_id == account_id for pin in o.snapshot_ids
    }
    return pins | {one.id for one in found.values() if one.operation_id in operations}


def _pins(subjects: list[Environment | Volume]) -> set[str]:
    """Besides heads: what forks began with, and the newest whole saves before partial heads."""
    return {pin for subject in subjects for pin in _named(subject)}


def _named(subject: Environment | Volume) -> frozenset[str]:
    if isinstance(subject, Volume):
        return subject.pins
    return frozenset() if subject.head is None else frozenset({subject.head})


def _is_living(subject: Environment | Volume) -> bool:
    """What lies in the trash may be taken back, and is charged until then."""
    if isinstance(subject, Volume):
        return subject.purged_at is None
    return subject.deleted_at is None


def _built_on(found: dict[str, Snapshot]) -> set[str]:
    return {
        one.parent_id
        for one in found.values()
        if one.state in UNFINISHED and one.parent_id is not None
    }
