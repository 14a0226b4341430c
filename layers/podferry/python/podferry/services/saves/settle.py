"""Verify a save, a share in each call of its agent; with the last share it becomes the head."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from podferry.domain.errors import ConflictError, SnapshotError
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.ports.store import Change, Update
from podferry.services.records import Records
from podferry.services.saves.begin import BeginSave
from podferry.services.saves.end import EndSave, check_open
from podferry.services.verification import Cursor, VerifySnapshot

SHARE = 500
"""Objects looked up in one call of the agent, whose function has 29 seconds and little memory."""


@dataclass(frozen=True, slots=True)
class SettleSave:
    """How far it is stands on the snapshot's row: an agent may ask again, but not skip anything."""

    records: Records
    verify: VerifySnapshot
    begin: BeginSave
    end: EndSave

    def run(self, snapshot_id: str) -> bool:
        """Go on with a captured save; false while there is more to verify.

        Raises:
            EpochStaleError, WrongStateError: see `check_open`.
            SnapshotError: it is damaged, and has failed.
        """
        snapshot = self.records.store.get(Snapshot, snapshot_id)
        if snapshot.state == SnapshotState.COMMITTED:
            return True
        check_open(self.records, snapshot)
        at = Cursor(snapshot=0, objects=snapshot.proven_objects)
        try:
            verdict = self.verify.run([snapshot], at, trust_parents=True, share=SHARE)
        except SnapshotError as error:
            self.end.fail(snapshot_id, {"code": error.code, "detail": error.detail})
            raise
        if verdict.cursor is None:
            self.end.commit(snapshot_id, verdict.stored_bytes[snapshot_id])
            # A user may wait for the next one. Who dies here leaves it to the schedule.
            with suppress(ConflictError):
                self.begin.if_due(snapshot.pod_id)
            return True
        proven = verdict.cursor.objects
        self.records.apply(lambda: self._proven(snapshot_id, proven))
        return False

    def _proven(self, snapshot_id: str, proven: int) -> Sequence[Change]:
        snapshot = self.records.store.get(Snapshot, snapshot_id)
        if snapshot.state != SnapshotState.CAPTURED or snapshot.proven_objects >= proven:
            return []
        return [Update(replace(snapshot, proven_objects=proven))]
