"""The end of an operation of sharing that did not succeed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.operation import Operation, OperationKind, OperationState
from podferry.domain.share import Share, ShareState
from podferry.domain.snapshot import UNFINISHED, Snapshot, SnapshotState
from podferry.domain.volume import Environment
from podferry.ports.store import Change, Update
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.workflow_error import WorkflowError

_BEFORE_THE_END = {ShareState.SCANNING, ShareState.SEALING}


@dataclass(frozen=True, slots=True)
class FailShare:
    """A share that failed can be accepted by nobody; a copy that failed leaves no environment."""

    records: Records
    operations: Operations

    def run(self, operation_id: str, error: WorkflowError) -> dict[str, Any]:
        """End the operation as failed, or as cancelled if that was the reason."""
        self.records.apply(lambda: self._ended(operation_id, error))
        return {}

    def _ended(self, operation_id: str, error: WorkflowError) -> Sequence[Change]:
        operation = self.operations.load(operation_id)
        if operation.state != OperationState.RUNNING:
            return []
        is_cancelled = operation.is_cancel_asked or error.code == "operation_cancelled"
        state = OperationState.CANCELLED if is_cancelled else OperationState.FAILED
        problem = error.as_problem()
        return [
            Update(self.operations.ended(operation, state, error=problem)),
            *self._undone(operation),
        ]

    def _undone(self, operation: Operation) -> list[Change]:
        if operation.kind == OperationKind.SHARE:
            share = self.records.store.get(Share, operation.share_id or "")
            if share.state not in _BEFORE_THE_END:
                return []
            told = self.operations.told(
                operation, "environment.share_failed", share_id=share.id, version=share.version
            )
            return [Update(replace(share, state=ShareState.FAILED)), *told]
        snapshot = self.records.store.get(Snapshot, operation.environment_snapshot_id or "")
        if snapshot.state not in UNFINISHED:
            return []
        environment = self.records.store.get(Environment, snapshot.subject_id)
        return [
            Update(replace(snapshot, state=SnapshotState.ABANDONED)),
            Update(replace(environment, deleted_at=self.records.now())),
        ]
