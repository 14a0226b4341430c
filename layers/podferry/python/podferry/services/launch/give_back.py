"""When a launch goes wrong: the machine goes back, then the next offer or the end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.errors import InternalError
from podferry.domain.machine import FINAL_STATES, Clearance, Machine
from podferry.domain.operation import Operation, OperationState
from podferry.domain.pod import Desired, Failure, PodState, avoid_host
from podferry.domain.use_of_volume import left
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Update
from podferry.services.giving_up import GiveUp, clear
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.workflow_error import WorkflowError

TRY_NEXT_OFFER = frozenset(
    {
        "NoCapacityError",
        "OfferGoneError",
        "QuotaExceededError",
        "PriceRaisedError",
        "ProviderRefusedError",
        "KeyRefusedError",
        "ProviderBusyError",
        "BootFailedError",
        "MachineLostError",
        "States.HeartbeatTimeout",
        "States.Timeout",
    }
)


@dataclass(frozen=True, slots=True)
class ReturnMachine:
    """Give back a machine that the pod never ran on, and note why."""

    records: Records
    operations: Operations
    give_up: GiveUp

    def run(self, operation_id: str, error: WorkflowError) -> dict[str, Any]:
        """Ask once; `AwaitReturned` follows it. Safe to repeat.

        Raises:
            InternalError: the machine was ready, so it may hold data.
        """
        operation = self.operations.load(operation_id)
        machine_id = operation.machine_id
        if machine_id is None:
            return {}
        self._clear(operation, machine_id, error)
        return self.give_up.ask(machine_id)

    def _clear(self, operation: Operation, machine_id: str, error: WorkflowError) -> None:
        def plan() -> Sequence[Change]:
            machine = self.records.store.get(Machine, machine_id)
            if machine.state in FINAL_STATES or machine.clearance is not None:
                return []
            pod = self.operations.pod_of(operation)
            is_its_fault = error.name in TRY_NEXT_OFFER
            returned = replace(clear(machine, Clearance.NEVER_READY), is_failed_boot=is_its_fault)
            changes: list[Change] = [
                Update(returned),
                self.records.pod_event(
                    pod,
                    "machine.returned",
                    operation,
                    machine_id=machine.id,
                    error=error.name,
                    detail=error.cause,
                ),
            ]
            if machine.offer.host is not None and is_its_fault:
                changes.append(Update(avoid_host(pod, machine.offer, self.records.now())))
            return changes

        self.records.apply(plan)


@dataclass(frozen=True, slots=True)
class AwaitReturned:
    """Follow the returned machine until it is gone, then say how to go on."""

    operations: Operations
    give_up: GiveUp

    def run(self, operation_id: str, error: WorkflowError) -> dict[str, Any]:
        """`{"is_gone": true, "next": "choose" | "fail"}`, or `is_gone` false with a wait."""
        operation = self.operations.load(operation_id)
        if operation.machine_id is not None:
            seen = self.give_up.look(operation.machine_id)
            if not seen["is_gone"]:
                return seen
        may_go_on = (
            error.name in TRY_NEXT_OFFER
            and not operation.is_cancel_asked
            and self._has_another(operation)
        )
        return {"is_gone": True, "next": "choose" if may_go_on else "fail"}

    def _has_another(self, operation: Operation) -> bool:
        if operation.offers:
            return True
        deadline = operation.capacity_deadline_at
        return deadline is not None and self.operations.records.now() < deadline


@dataclass(frozen=True, slots=True)
class FailStart:
    """Back to stopped, with the reason; snapshots and lease as before the start."""

    records: Records
    operations: Operations

    def run(self, operation_id: str, error: WorkflowError) -> dict[str, Any]:
        """Raises: InternalError: a machine of this start still stands."""
        if self.operations.load(operation_id).state == OperationState.RUNNING:
            self.records.apply(lambda: self._plan(operation_id, error))
        self.operations.answer_waiter(operation_id)
        return {}

    def _plan(self, operation_id: str, error: WorkflowError) -> Sequence[Change]:
        operation = self.operations.load(operation_id)
        pod = self.operations.pod_of(operation)
        volume = self.records.store.get(Volume, pod.volume_id)
        if operation.machine_id is not None:
            machine = self.records.store.get(Machine, operation.machine_id)
            if machine.state not in FINAL_STATES:
                raise InternalError(f"machine {machine.id} is {machine.state}, not gone")
        failure = Failure(code=error.code, detail=error.cause, at=self.records.now())
        is_cancelled = operation.is_cancel_asked
        state = OperationState.CANCELLED if is_cancelled else OperationState.FAILED
        changes: list[Change] = [
            Update(
                replace(
                    pod,
                    state=PodState.STOPPED,
                    desired=Desired.STOPPED,
                    machine_id=None,
                    operation_id=operation.parent_id,
                    last_error=None if is_cancelled else failure,
                )
            ),
            Update(self.operations.ended(operation, state, error=error.as_problem())),
            self.records.pod_event(
                pod, f"pod.start_{state}", operation, error=error.code, detail=error.cause
            ),
        ]
        free = left(volume, pod)
        if free != volume:
            changes.append(Update(free))
        return changes
