"""Check the target before the old machine is touched; then the two halves, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from podferry.domain.errors import ConflictError, NoCapacityError
from podferry.domain.operation import (
    MAINTENANCE_WAIT,
    Cause,
    Operation,
    OperationKind,
    OperationState,
)
from podferry.domain.pod import Desired, Failure, Pod, PodState
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Check, Create, Update
from podferry.services.launch.choose import ListCandidates, explain
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.start_pod import StartPod
from podferry.services.stop_pod import StopPod
from podferry.services.workflow_error import WorkflowError


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """Something that fits must be on offer, else the pod stays where it is.

    Unless its machine has to be left in any case: then the start waits for what is not there.
    """

    operations: Operations
    candidates: ListCandidates

    def run(self, operation_id: str) -> dict[str, Any]:
        """Raises: NoCapacityError: says what ruled the offers out; OperationCancelledError."""
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        if self._has_begun(operation) or operation.capacity_deadline_at is not None:
            return {}
        pod = self.operations.pod_of(operation)
        found, silent = self.candidates.run(pod, operation.requirements or pod.requirements)
        if not found.offers:
            raise NoCapacityError(f"nothing to move to; {explain(found, silent)}")
        return {"offers": len(found.offers)}

    def _has_begun(self, operation: Operation) -> bool:
        return self.operations.records.store.find(Operation, operation.halves[0]) is not None


@dataclass(frozen=True, slots=True)
class RunHalf:
    """The stop or the start of a move, as an operation of its own that answers our token."""

    records: Records
    operations: Operations
    stop_pod: StopPod
    start_pod: StartPod
    kind: OperationKind

    def run(self, operation_id: str, task_token: str) -> None:
        """Begin the half, or wait for the one that an earlier run of this step began.

        Raises:
            OperationCancelledError, WrongStateError, VolumeBusyError, ConflictError (again).
        """
        move = self.operations.load(operation_id)
        half_id = move.halves[0 if self.kind == OperationKind.STOP else 1]
        half = self.records.store.find(Operation, half_id)
        if half is None:
            self.operations.check_wanted(move)
            half = self._begin(move, half_id, task_token)
        else:
            self._wait_for(half, task_token)
        self.operations.launch_execution(half)
        self.operations.answer_waiter(half_id)

    def _begin(self, move: Operation, half_id: str, task_token: str) -> Operation:
        pod = self.operations.pod_of(move)
        half = Operation(
            id=half_id,
            account_id=move.account_id,
            created_at=self.records.now(),
            pod_id=move.pod_id,
            kind=self.kind,
            cause=move.cause,
            requirements=move.requirements,
            capacity_deadline_at=move.capacity_deadline_at or self._patience(move),
            parent_id=move.id,
            waiter_token=task_token,
        )
        # Names the move as it is read: a cancel that comes in between wins.
        self.records.store.commit(*self._changes(pod, half), Check(move))
        return half

    def _patience(self, move: Operation) -> datetime | None:
        """Nobody asked for this move, so the pod does not stay stopped for want of an offer."""
        is_unasked = move.cause == Cause.MAINTENANCE
        return self.records.now() + MAINTENANCE_WAIT if is_unasked else None

    def _changes(self, pod: Pod, half: Operation) -> list[Change]:
        if self.kind == OperationKind.STOP:
            return self.stop_pod.changes(pod, half)
        start = self.start_pod.plan(pod, self.records.store.get(Volume, pod.volume_id), half)
        return [
            Update(start.pod),
            Update(start.volume),
            Create(start.operation),
            start.event,
        ]

    def _wait_for(self, half: Operation, task_token: str) -> None:
        def plan() -> Sequence[Change]:
            fresh = self.operations.load(half.id)
            return [Update(replace(fresh, waiter_token=task_token))]

        self.records.apply(plan)


@dataclass(frozen=True, slots=True)
class FinishMove:
    """The pod runs elsewhere."""

    records: Records
    operations: Operations

    def run(self, operation_id: str) -> dict[str, Any]:
        """Raises: ConflictError (run it again)."""
        if self.operations.load(operation_id).state == OperationState.RUNNING:
            self.records.apply(lambda: self._plan(operation_id))
        return {}

    def _plan(self, operation_id: str) -> Sequence[Change]:
        move = self.operations.load(operation_id)
        pod = self.operations.pod_of(move)
        halves = [self.operations.load(half) for half in move.halves]
        result = {"stop": halves[0].result, "start": halves[1].result}
        ended = self.operations.ended(move, OperationState.SUCCEEDED, result=result)
        return [
            Update(ended),
            Update(replace(pod, operation_id=None)),
            self.records.pod_event(pod, "pod.moved", move),
        ]


@dataclass(frozen=True, slots=True)
class FailMove:
    """The pod is where its last half left it: running at the old place, or stopped and safe."""

    records: Records
    operations: Operations

    def run(self, operation_id: str, error: WorkflowError) -> dict[str, Any]:
        """Raises: ConflictError: a half is still at work (run it again)."""
        if self.operations.load(operation_id).state == OperationState.RUNNING:
            self.records.apply(lambda: self._plan(operation_id, error))
        return {}

    def _plan(self, operation_id: str, error: WorkflowError) -> Sequence[Change]:
        move = self.operations.load(operation_id)
        pod = self.operations.pod_of(move)
        found = [self.records.store.find(Operation, half) for half in move.halves]
        if any(half is not None and half.state == OperationState.RUNNING for half in found):
            raise ConflictError(f"a half of move {move.id} is still at work")
        state = OperationState.CANCELLED if move.is_cancel_asked else OperationState.FAILED
        problem = self._problem(found, error)
        return [
            Update(self.operations.ended(move, state, error=problem)),
            Update(self._left(pod, move, problem)),
            self.records.pod_event(pod, f"pod.move_{state}", move, error=problem["code"]),
        ]

    def _left(self, pod: Pod, move: Operation, problem: dict[str, Any]) -> Pod:
        """Between the halves of a move the wish is to run; it ends where the pod now is."""
        failure = Failure(code=problem["code"], detail=problem["detail"], at=self.records.now())
        is_cancelled = move.is_cancel_asked
        return replace(
            pod,
            desired=Desired.RUNNING if pod.state == PodState.RUNNING else Desired.STOPPED,
            operation_id=None,
            last_error=pod.last_error if is_cancelled else pod.last_error or failure,
        )

    def _problem(self, halves: Sequence[Operation | None], error: WorkflowError) -> dict[str, Any]:
        """What went wrong in the half that failed says more than that it failed."""
        for half in halves:
            if half is not None and half.error is not None:
                return half.error
        return error.as_problem()
