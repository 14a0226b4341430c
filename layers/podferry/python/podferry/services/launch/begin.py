"""First steps of a launch: is it still wanted, and is what must be restored really there."""

from dataclasses import dataclass
from typing import Any

from podferry.domain.errors import InternalError, SnapshotMissingError
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.secrets import require_secrets
from podferry.services.verification import Cursor, VerifySnapshot


@dataclass(frozen=True, slots=True)
class BeginStart:
    """Check the wish; the rows were written when it was asked for."""

    records: Records
    operations: Operations

    def run(self, operation_id: str) -> dict[str, Any]:
        """Raises: OperationCancelledError; SecretMissingError: nobody asked for this start."""
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        pod = self.operations.pod_of(operation)
        require_secrets(self.records, pod.account_id, pod.spec)
        self.operations.schedules.enable()
        self.operations.note(operation_id, "begun")
        return {}


@dataclass(frozen=True, slots=True)
class CheckSnapshots:
    """Before money is spent: all that the restore needs is in the store (promise 7)."""

    records: Records
    operations: Operations
    verify: VerifySnapshot

    def run(self, operation_id: str, cursor: Cursor | None) -> dict[str, Any]:
        """Look at a share of the objects; `{"is_done": False, "cursor": …}` asks for another run.

        Raises:
            SnapshotMissingError, SnapshotCorruptError, OperationCancelledError.
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        expected = [
            snapshot_id
            for snapshot_id in (operation.environment_snapshot_id, operation.volume_snapshot_id)
            if snapshot_id is not None
        ]
        snapshots = [self._committed(snapshot_id) for snapshot_id in expected]
        return self.verify.run(snapshots, cursor, trust_parents=False).as_state()

    def _committed(self, snapshot_id: str) -> Snapshot:
        snapshot = self.records.store.find(Snapshot, snapshot_id)
        if snapshot is None:
            raise SnapshotMissingError(f"snapshot {snapshot_id} is expected but has no record")
        if snapshot.state != SnapshotState.COMMITTED:
            raise InternalError(f"snapshot {snapshot_id} is a head but {snapshot.state}")
        return snapshot
