"""Charge what is stored, and tell how much that is."""

from dataclasses import dataclass, replace

from podferry.domain.snapshot import Snapshot
from podferry.domain.storage import Charge, StorageUse, use_id
from podferry.domain.volume import Environment, Volume
from podferry.ports.store import Change, Create, Update
from podferry.services.records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStorage:
    """What an account has in the store."""

    volumes_bytes: int
    environments_bytes: int
    byte_seconds: int
    """Since the account exists, up to now: see `ReadStorage.byte_seconds`."""


@dataclass(frozen=True, slots=True)
class ReadStorage:
    """Sums that commits and the collector keep; no snapshot and no object is looked at."""

    records: Records

    def of_one(self, subject_id: str) -> int:
        """Bytes that are charged to one environment or volume."""
        use = self.records.store.find(StorageUse, use_id(subject_id))
        return 0 if use is None else use.bytes

    def of_each(self, account_id: str) -> dict[str, int]:
        """The same of all that the account has, by id; who has nothing is left out."""
        return {use.subject_id: use.bytes for use in self._uses(account_id)}

    def of_account(self, account_id: str) -> AccountStorage:
        """All that the account has, also what only its forks still need of deleted volumes."""
        sums = dict.fromkeys((Volume.PREFIX, Environment.PREFIX), 0)
        for use in self._uses(account_id):
            sums[use.subject_id.partition("_")[0]] += use.bytes
        return AccountStorage(
            volumes_bytes=sums[Volume.PREFIX],
            environments_bytes=sums[Environment.PREFIX],
            byte_seconds=self.byte_seconds(account_id),
        )

    def byte_seconds(self, account_id: str) -> int:
        """Bytes times seconds of all that the account stored since it exists, up to now.

        It never falls. What lies between two readings is what was stored between them: divided by
        2**30 and by the seconds of a month these are GiB-months.
        """
        now = self.records.now()
        return sum(use.byte_seconds_at(now) for use in self._uses(account_id))

    def _uses(self, account_id: str) -> list[StorageUse]:
        return list(self.records.all_owned(StorageUse, account_id))


def charged(records: Records, snapshot: Snapshot, charge: Charge) -> tuple[Snapshot, list[Change]]:
    """The snapshot with this charge instead of the one it had, and the sums that change by it.

    Whoever writes the snapshot writes these with it, so that a sum is that of its charges.
    """
    deltas = {charge.to: charge.bytes}
    if snapshot.charge is not None:
        before = snapshot.charge
        deltas[before.to] = deltas.get(before.to, 0) - before.bytes
    sums = [_grown(records, snapshot, to, by) for to, by in sorted(deltas.items()) if by]
    return replace(snapshot, charge=charge), sums


def charged_first(records: Records, snapshot: Snapshot) -> tuple[Snapshot, list[Change]]:
    """A snapshot that becomes committed: what its verification counted, to its own subject.

    One of which that is not known is counted and charged by the garbage collector.
    """
    if snapshot.stored_bytes is None:
        return snapshot, []
    charge = Charge(to=snapshot.subject_id, bytes=snapshot.stored_bytes)
    return charged(records, snapshot, charge)


def _grown(records: Records, snapshot: Snapshot, subject_id: str, by: int) -> Change:
    now = records.now()
    use = records.store.find(StorageUse, use_id(subject_id))
    if use is not None:
        return Update(use.grown_by(by, now))
    return Create(
        StorageUse(
            id=use_id(subject_id),
            account_id=snapshot.account_id,
            created_at=now,
            subject_id=subject_id,
            bytes=by,
            counted_to=now,
        )
    )
