"""How operations begin, pass milestones and end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podferry.domain.errors import OperationCancelledError, WrongStateError
from podferry.domain.operation import (
    NO_POD,
    Operation,
    OperationKind,
    OperationState,
    ended,
    execution_name,
    reached,
)
from podferry.domain.pod import Pod
from podferry.ports.store import Change, Update
from podferry.ports.surroundings import Schedules
from podferry.ports.workflows import Workflow, Workflows
from podferry.services.records import Records

WORKFLOW_OF = {
    OperationKind.LAUNCH: Workflow.LAUNCH,
    OperationKind.START: Workflow.LAUNCH,
    OperationKind.RECOVER: Workflow.LAUNCH,
    OperationKind.STOP: Workflow.STOP,
    OperationKind.MOVE: Workflow.MOVE,
    OperationKind.VERIFY: Workflow.PROOF,
    OperationKind.SHARE: Workflow.SHARE,
    OperationKind.ACCEPT: Workflow.SHARE,
}


@dataclass(frozen=True, slots=True)
class Operations:
    """Shared by all steps; holds no rule of any single kind."""

    records: Records
    workflows: Workflows
    schedules: Schedules

    def load(self, operation_id: str) -> Operation:
        return self.records.store.get(Operation, operation_id)

    def pod_of(self, operation: Operation) -> Pod:
        return self.records.store.get(Pod, operation.pod_id)

    def told(self, operation: Operation, event_type: str, **evidence: Any) -> list[Change]:
        """An event under the operation's pod, if it belongs to one."""
        if operation.pod_id == NO_POD:
            return []
        pod = self.pod_of(operation)
        return [self.records.pod_event(pod, event_type, operation, **evidence)]

    def store_and_launch(self, operation: Operation, *changes: Change) -> None:
        """Write a new operation with its effects, then start its workflow.

        The schedule comes first: if we die after the write, the reconciler finds the operation.
        """
        self.schedules.enable()
        self.records.store.commit(*changes)
        self.launch_execution(operation)

    def launch_execution(self, operation: Operation) -> None:
        """Start the workflow of a stored operation; safe to repeat."""
        self.workflows.start(WORKFLOW_OF[operation.kind], execution_name(operation), operation.id)

    def check_wanted(self, operation: Operation) -> None:
        """Raise unless the operation still goes forward.

        Raises:
            OperationCancelledError: a cancel was asked for, or the operation is over or undoes
                what it did.
        """
        if operation.state != OperationState.RUNNING:
            raise OperationCancelledError(f"operation {operation.id} is {operation.state}")
        if operation.is_point_of_no_return:
            return
        if operation.is_cancel_asked:
            raise OperationCancelledError(f"operation {operation.id} was cancelled")
        if operation.turned_back is not None:
            raise OperationCancelledError(f"operation {operation.id} has turned back")

    def with_milestone(self, operation: Operation, phase: str) -> Operation:
        """The operation with the phase noted; the first time counts."""
        return reached(operation, phase, self.records.now())

    def note(self, operation_id: str, phase: str) -> Operation:
        """Store a milestone and return the operation as it then is."""

        def plan() -> Sequence[Change]:
            operation = self.load(operation_id)
            marked = self.with_milestone(operation, phase)
            return [] if marked is operation else [Update(marked)]

        self.records.apply(plan)
        return self.load(operation_id)

    def ended(
        self,
        operation: Operation,
        state: OperationState,
        *,
        result: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
    ) -> Operation:
        """The operation in its final state, to be written with the pod's change."""
        return ended(operation, state, self.records.now(), result=result, error=error)

    def answer_waiter(self, operation_id: str) -> None:
        """Tell the move that waits for this operation, if one does, how it ended.

        Repeated by the waiting step itself when this message is lost.
        """
        operation = self.load(operation_id)
        if operation.waiter_token is None or operation.state == OperationState.RUNNING:
            return
        if operation.state == OperationState.SUCCEEDED:
            self.workflows.succeed(operation.waiter_token, {"operation_id": operation.id})
        else:
            error = operation.error or {}
            self.workflows.fail(
                operation.waiter_token, "HalfFailedError", str(error.get("detail", operation.state))
            )

    def beat_waiter(self, operation: Operation) -> None:
        """Keep the waiting move alive while this half of it makes progress."""
        if operation.waiter_token is not None:
            self.workflows.beat(operation.waiter_token)


def require_idle(pod: Pod) -> None:
    """Raise unless no operation is at work on the pod.

    Raises:
        WrongStateError: names the operation.
    """
    if pod.operation_id is not None:
        raise WrongStateError(
            f"pod {pod.id} is {pod.state}: operation {pod.operation_id} is at work on it; "
            "wait for it or cancel it"
        )
