"""What a pod's data must be, by what was acknowledged and from which save each machine began.

For every machine and every save there are two sets of records: those that must be in it and those
that may be. A machine begins with what its save must and may have; a save must have what its
machine had acknowledged before the save began, and may have what came until it was committed.
"""

from collections.abc import Iterable

from podferry.domain.pod import Pod
from podferry.domain.snapshot import Snapshot, SnapshotState
from tests.chaos.world.account import PodUnderTest, Sight, digest_of
from tests.chaos.world.rows import Rows

_RECORDS = "chaos/records"


class Lineage:
    """Follows saves and machines back to the empty volume."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._machines = {machine.id: machine for machine in rows.machines}
        self._operations = {operation.id: operation for operation in rows.operations}
        self._saves: dict[str, Snapshot] = {}

    def check(self, watched: PodUnderTest, pod: Pod) -> Iterable[str]:
        """Compare everything that was seen in a pod with what had to be there."""
        self._saves = {save.id: save for save in self._rows.saves(pod)}
        for sight in watched.sights:
            yield from self._check(watched, sight)

    def _check(self, watched: PodUnderTest, sight: Sight) -> Iterable[str]:
        where = f"pod {watched.id} on {sight.machine_id} at {sight.asked_at:%H:%M:%S}"
        if sight.machine_id not in self._machines:
            yield f"{where}: no such machine of this account"
            return
        begin = self._restored(sight.machine_id)
        if begin is not None and self._saves[begin].state != SnapshotState.COMMITTED:
            yield f"{where}: began from {begin}, which is {self._saves[begin].state}"
        seen = set(sight.records)
        if len(seen) != len(sight.records):
            yield f"{where}: a record was written twice: {sight.records}"
        must = self._must(watched, begin) | {
            write.record
            for write in watched.writes
            if write.machine_id == sight.machine_id
            and write.acknowledged_at is not None
            and write.acknowledged_at <= sight.asked_at
        }
        may = self._may(watched, begin) | self._written_on(watched, sight.machine_id)
        if missing := must - seen:
            yield f"{where}: began from {begin}, lost {sorted(missing)}"
        if strange := seen - may:
            yield f"{where}: began from {begin}, has {sorted(strange)} of another life"
        yield from self._mixtures(watched, sight, where, must)

    def _mixtures(
        self, watched: PodUnderTest, sight: Sight, where: str, must: set[str]
    ) -> Iterable[str]:
        acknowledged = {w.record for w in watched.writes if w.acknowledged_at is not None}
        in_order = [record for record in sight.records if record in acknowledged]
        if in_order != sorted(in_order):
            yield f"{where}: records in another order: {in_order}"
        if sight.digests is None:
            return
        for record in sorted(must & set(sight.records)):
            if sight.digests.get(f"files/{record}") != digest_of(record):
                yield f"{where}: the file of {record} is not what was written"
        latest = sight.digests.get("latest")
        if must and latest not in {digest_of(w.record) for w in watched.writes}:
            yield f"{where}: the replaced file is none of those that were written"

    def _restored(self, machine_id: str) -> str | None:
        """The save that the machine began from; `None` if it began empty."""
        operation = self._operations[self._machines[machine_id].operation_id]
        return operation.volume_snapshot_id

    def _must(self, watched: PodUnderTest, save_id: str | None) -> set[str]:
        if save_id is None:
            return set()
        save = self._saves[save_id]
        before = self._must(watched, self._restored(save.machine_id))
        if _RECORDS in save.summary.get("torn", ()):
            return before
        return before | {
            write.record
            for write in watched.writes
            if write.machine_id == save.machine_id
            and write.acknowledged_at is not None
            and write.acknowledged_at <= save.created_at
        }

    def _may(self, watched: PodUnderTest, save_id: str | None) -> set[str]:
        if save_id is None:
            return set()
        machine_id = self._saves[save_id].machine_id
        before = self._may(watched, self._restored(machine_id))
        return before | self._written_on(watched, machine_id)

    def _written_on(self, watched: PodUnderTest, machine_id: str) -> set[str]:
        """Records that may be there because of this machine; nobody knows of unanswered ones."""
        return {w.record for w in watched.writes if w.machine_id in {machine_id, None}}
