"""Which snapshots somebody may begin to use."""

from collections.abc import Collection
from dataclasses import replace

from podferry.domain.errors import NotFoundError
from podferry.domain.snapshot import Snapshot
from podferry.services.records import Records


def restorable(
    records: Records, account_id: str, snapshot_id: str, *, pinned: Collection[str] = ()
) -> Snapshot:
    """A committed snapshot of the account that the garbage collector has not turned to.

    Its row has to be checked in the transaction that makes the use visible: a mark would move it.
    One that is `pinned` may have expired, which only takes it out of its list.

    Raises:
        NotFoundError: no such snapshot, or it cannot be used any more.
    """
    snapshot = records.get_own(Snapshot, account_id, snapshot_id)
    seen = replace(snapshot, expired_at=None) if snapshot_id in pinned else snapshot
    if not seen.is_usable:
        raise NotFoundError(
            f"no snapshot {snapshot_id} that can be restored: it was never committed, or it "
            "has expired"
        )
    return snapshot
