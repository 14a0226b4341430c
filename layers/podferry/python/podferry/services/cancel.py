"""Withdraw the wish behind a running operation."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from podferry.domain.command import ENDED, Command
from podferry.domain.errors import WrongStateError
from podferry.domain.operation import STARTS, UNMOVING, Operation, OperationKind, OperationState
from podferry.domain.pod import Desired
from podferry.ports.store import Change, Update
from podferry.ports.workflows import Workflows
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.saves.end import EndSave


@dataclass(frozen=True, slots=True)
class CancelOperation:
    """Cancel: every later step sees the mark in its own conditional write and turns back."""

    records: Records
    operations: Operations
    workflows: Workflows
    saves: EndSave

    def ask(self, account_id: str, operation_id: str) -> Operation:
        """Mark the operation and wake the step that waits; doing it twice is one cancel.

        Raises:
            NotFoundError: no such operation.
            WrongStateError: it ended, or its effect can no longer be undone.
        """
        operation = self.records.get_own(Operation, account_id, operation_id)
        if operation.kind == OperationKind.SAVE:
            self.saves.cancel(operation)
            return self.operations.load(operation_id)
        self._mark(operation.id)
        for half in operation.halves:
            if self.records.store.find(Operation, half) is not None:
                # A half that ended or cannot go back any more: the move turns back after it.
                with suppress(WrongStateError):
                    self._mark(half)
        return self.operations.load(operation_id)

    def _mark(self, operation_id: str) -> None:
        def plan() -> Sequence[Change]:
            operation = self.operations.load(operation_id)
            if operation.state != OperationState.RUNNING:
                raise WrongStateError(f"operation {operation.id} is {operation.state} already")
            if operation.is_point_of_no_return:
                raise WrongStateError(
                    f"operation {operation.id} has committed its snapshots and gives the machine "
                    "up; start the pod again when it is done"
                )
            if self._has_moved(operation):
                raise WrongStateError(f"operation {operation.id} has moved the pod already")
            if operation.is_cancel_asked:
                return []
            return [
                Update(replace(operation, is_cancel_asked=True)),
                *self._wish(operation),
                *self.operations.told(operation, "operation.cancel_asked"),
            ]

        self.records.apply(plan)
        self._wake(self.operations.load(operation_id))

    def _has_moved(self, operation: Operation) -> bool:
        halves = [self.records.store.find(Operation, half) for half in operation.halves]
        return bool(halves) and all(
            half is not None and half.state == OperationState.SUCCEEDED for half in halves
        )

    def _wake(self, operation: Operation) -> None:
        for command_id in operation.commands:
            command = self.records.store.get(Command, command_id)
            if command.state not in ENDED and command.task_token is not None:
                self.workflows.fail(
                    command.task_token, "OperationCancelledError", "cancelled by the user"
                )

    def _wish(self, operation: Operation) -> list[Change]:
        """What its user wants of the pod, if the operation is one that moves it."""
        if operation.kind in UNMOVING:
            return []
        desired = Desired.STOPPED if operation.kind in STARTS else Desired.RUNNING
        return [Update(replace(self.operations.pod_of(operation), desired=desired))]
