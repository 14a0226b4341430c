"""When a stop goes wrong before its point of no return: the pod runs on (promise 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from podferry.domain.command import CommandKind
from podferry.domain.errors import InternalError
from podferry.domain.machine import FINAL_STATES, Machine, MachineState, Pulse
from podferry.domain.operation import Operation, OperationState
from podferry.domain.pod import Desired, Failure, Pod, PodState
from podferry.domain.snapshot import SnapshotState
from podferry.domain.state_word import SILENCE
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Create, Update
from podferry.services.commands import GiveCommand, Order
from podferry.services.giving_up import GiveUp, Proof
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.saves.rows import asked_save
from podferry.services.stop.commit import captures_of
from podferry.services.workflow_error import WorkflowError

SAID_TO_BE_GONE = "said_to_be_gone"
"""Milestone: the provider's word that the machine is gone, not proven by itself."""
RESUME_SECONDS = 120
MOST_ASSESSMENTS = 5


@dataclass(frozen=True, slots=True)
class AssessStop:
    """Resume the pod, or go on because its machine is proven gone or the loss is accepted."""

    records: Records
    operations: Operations
    give_up: GiveUp

    def run(self, operation_id: str, error: WorkflowError) -> dict[str, Any]:
        """`{"next": "resume"}`, or `"verify"`: go to the gate with the captures that there are.

        `{"next": "look_again"}` while a first listing does not show the machine.

        Raises:
            InternalError: the machine is gone and the gate keeps failing; the operation is
                started again later.
        """
        operation = self.operations.load(operation_id)
        if operation.is_point_of_no_return:
            return {"next": "verify"}
        if operation.is_cancel_asked or operation.turned_back is not None:
            return self._turn_back(operation, error)
        machine = self.records.store.get(Machine, operation.machine_id or "")
        proof = self._proof(operation, machine)
        if proof == Proof.MISSING:
            return {"next": "look_again"}
        is_gone = proof == Proof.GONE
        operation = self._count(operation_id)
        if is_gone:
            self._lost(operation, machine)
        if operation.assessments <= MOST_ASSESSMENTS and (is_gone or operation.accept_loss):
            return {"next": "verify"}
        if is_gone:
            raise InternalError(f"operation {operation_id}: the gate fails: {error.cause}")
        return self._turn_back(operation, error)

    def _proof(self, operation: Operation, machine: Machine) -> Proof:
        """A machine with data is gone when its provider says so *and* its agent is silent.

        An agent that speaks after that word proves it wrong: the machine is kept.
        """
        if machine.state in FINAL_STATES:
            return Proof.GONE
        proof = self.give_up.proof(machine)
        if proof == Proof.NONE:
            return proof
        self.operations.note(operation.id, SAID_TO_BE_GONE)
        said_at = self._said_at(operation.id)
        pulse = self.records.store.find(Pulse, machine.id)
        if pulse is None or self.records.now() - pulse.heard_at > SILENCE:
            return proof
        return Proof.NONE if pulse.heard_at > said_at else Proof.MISSING

    def _said_at(self, operation_id: str) -> datetime:
        milestones = self.operations.load(operation_id).milestones
        return next(m.at for m in milestones if m.phase == SAID_TO_BE_GONE)

    def _count(self, operation_id: str) -> Operation:
        def plan() -> Sequence[Change]:
            fresh = self.operations.load(operation_id)
            return [Update(replace(fresh, assessments=fresh.assessments + 1))]

        self.records.apply(plan)
        return self.operations.load(operation_id)

    def _lost(self, operation: Operation, machine: Machine) -> None:
        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Machine, machine.id)
            if fresh.state in FINAL_STATES:
                return []
            pod = self.operations.pod_of(operation)
            gone = replace(fresh, state=MachineState.LOST, released_at=self.records.now())
            return [
                Update(gone),
                self.records.pod_event(pod, "machine.lost", operation, machine_id=machine.id),
            ]

        self.records.apply(plan)

    def _turn_back(self, operation: Operation, error: WorkflowError) -> dict[str, Any]:
        def plan() -> Sequence[Change]:
            fresh = self.operations.load(operation.id)
            if fresh.turned_back is not None or fresh.is_point_of_no_return:
                return []
            return [Update(replace(fresh, turned_back=error.as_problem()))]

        self.records.apply(plan)
        # A commit that outlived its step may have come first: then there is no way back.
        is_committed = self.operations.load(operation.id).is_point_of_no_return
        return {"next": "verify" if is_committed else "resume"}


@dataclass(frozen=True, slots=True)
class ResumeMachine:
    """Wake what was paused; captures that are still at work are told to leave it."""

    records: Records
    operations: Operations
    commands: GiveCommand

    def run(self, operation_id: str, task_token: str) -> None:
        """Give the command; the agent's report answers the token.

        Raises:
            MachineLostError, ConflictError (run it again).
            InternalError: the stop has not turned back; what was captured must stay at rest.
        """
        operation = self.operations.load(operation_id)
        if operation.turned_back is None:
            raise InternalError(f"operation {operation.id} has not turned back")
        order = partial(self._order, operation)
        self.commands.once(operation, "resume", task_token, order, tries_again=True)

    def _order(self, operation: Operation) -> Order:
        """Before it is told to resume, the agent is told to leave what nobody waits for."""
        self.commands.withdraw_open(operation)
        return Order(kind=CommandKind.RESUME, arguments={}, timeout_seconds=RESUME_SECONDS)


@dataclass(frozen=True, slots=True)
class FailStop:
    """Back to running, with the reason; what was captured half is abandoned."""

    records: Records
    operations: Operations

    def run(self, operation_id: str, error: WorkflowError) -> dict[str, Any]:
        """Raises: ConflictError (run it again); InternalError: the captures are committed."""
        if self.operations.load(operation_id).state == OperationState.RUNNING:
            self.records.apply(lambda: self._plan(operation_id, error))
        self.operations.answer_waiter(operation_id)
        return {}

    def _plan(self, operation_id: str, error: WorkflowError) -> Sequence[Change]:
        operation = self.operations.load(operation_id)
        if operation.is_point_of_no_return:
            raise InternalError(f"operation {operation.id} has committed; it cannot turn back")
        pod = self.operations.pod_of(operation)
        machine = self.records.store.get(Machine, operation.machine_id or "")
        problem = operation.turned_back or error.as_problem()
        is_cancelled = operation.is_cancel_asked
        state = OperationState.CANCELLED if is_cancelled else OperationState.FAILED
        return [
            Update(self._running(pod, operation, problem)),
            *self._kept(machine),
            Update(self.operations.ended(operation, state, error=problem)),
            *self._abandoned(operation),
            *self._asked_again(pod, operation, machine),
            self.records.pod_event(
                pod,
                f"pod.stop_{state}",
                operation,
                error=problem["code"],
                detail=problem["detail"],
            ),
        ]

    def _running(self, pod: Pod, operation: Operation, problem: dict[str, Any]) -> Pod:
        failure = Failure(code=problem["code"], detail=problem["detail"], at=self.records.now())
        return replace(
            pod,
            state=PodState.RUNNING,
            desired=Desired.RUNNING,
            operation_id=operation.parent_id,
            last_error=pod.last_error if operation.is_cancel_asked else failure,
        )

    def _kept(self, machine: Machine) -> list[Change]:
        """A machine that is proven gone stays so; the pod on it shows as unreachable."""
        if machine.state in FINAL_STATES:
            return []
        return [Update(replace(machine, state=MachineState.READY))]

    def _asked_again(self, pod: Pod, operation: Operation, machine: Machine) -> list[Change]:
        """The labelled save that the stop's capture was to replace."""
        if operation.label is None:
            return []
        volume = self.records.store.get(Volume, pod.volume_id)
        save = asked_save(self.records, pod, operation.label)
        saving = replace(volume.saving_by(machine.epoch), asked_by=save.id)
        event = self.records.pod_event(pod, "pod.save_asked", save, label=save.label)
        return [Create(save), Update(replace(volume, saving=saving)), event]

    def _abandoned(self, operation: Operation) -> list[Change]:
        """Every capture that this stop began, finished or not."""
        return [
            Update(replace(snapshot, state=SnapshotState.ABANDONED))
            for snapshot in captures_of(self.records, operation)
            if snapshot.state != SnapshotState.ABANDONED
        ]
