"""Ask for a restore drill."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.errors import WrongStateError
from podferry.domain.operation import NO_POD, Cause, Operation, OperationKind
from podferry.domain.pod import Pod
from podferry.domain.proof import ProofMode
from podferry.domain.snapshot import Snapshot, SnapshotKind
from podferry.ports.store import Change, Check, Create
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.restorable import restorable


@dataclass(frozen=True, slots=True)
class AskProof:
    """Nothing of the pod has to stand still for it: a committed snapshot never changes."""

    records: Records
    operations: Operations

    def ask(self, account_id: str, snapshot_id: str, mode: ProofMode) -> Operation:
        """Begin to verify a save or a capture; from here on the garbage collector keeps it.

        Raises:
            NotFoundError: no such snapshot that can be restored.
            WrongStateError: it is being verified already; names the operation. Or it was accepted
                from a share.
            ConflictError: it expired at the same moment.
        """
        snapshot = restorable(self.records, account_id, snapshot_id)
        if snapshot.pod_id == NO_POD:
            raise WrongStateError(
                f"snapshot {snapshot_id} came from another account and was verified when it was "
                "accepted; a pod that is launched from it captures, and verifies, it anew"
            )
        self._check_idle(snapshot)
        operation = self._operation(snapshot, mode)
        self.operations.store_and_launch(operation, *self._changes(snapshot, operation))
        return operation

    def _check_idle(self, snapshot: Snapshot) -> None:
        for one in self.records.store.list_active(Operation):
            if one.kind == OperationKind.VERIFY and snapshot.id in one.snapshot_ids:
                raise WrongStateError(f"operation {one.id} verifies snapshot {snapshot.id} already")

    def _operation(self, snapshot: Snapshot, mode: ProofMode) -> Operation:
        is_volume = snapshot.kind == SnapshotKind.VOLUME
        operation = Operation(
            id=self.records.new_id(Operation),
            account_id=snapshot.account_id,
            created_at=self.records.now(),
            pod_id=snapshot.pod_id,
            kind=OperationKind.VERIFY,
            cause=Cause.USER,
            proof_mode=mode,
        )
        named = replace(
            operation,
            environment_snapshot_id=None if is_volume else snapshot.id,
            volume_snapshot_id=snapshot.id if is_volume else None,
        )
        return self.operations.with_milestone(named, "asked")

    def _changes(self, snapshot: Snapshot, operation: Operation) -> Sequence[Change]:
        pod = self.records.store.get(Pod, snapshot.pod_id)
        event = self.records.pod_event(
            pod, "pod.verify_asked", operation, snapshot_id=snapshot.id, mode=operation.proof_mode
        )
        # The collector looks at the operations before it takes a snapshot out of use, and at this
        # row's revision when it does.
        return [Create(operation), Check(snapshot), event]


def snapshot_of(records: Records, operation: Operation) -> Snapshot:
    """The snapshot that the operation verifies."""
    return records.store.get(Snapshot, operation.snapshot_ids[0])
