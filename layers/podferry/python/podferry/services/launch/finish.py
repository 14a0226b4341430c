"""The last step of a launch: the pod is its user's again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.command import Command, CommandState
from podferry.domain.errors import InternalError
from podferry.domain.machine import Machine, MachineState
from podferry.domain.operation import Operation, OperationKind, OperationState
from podferry.domain.pod import Pod, PodState
from podferry.domain.use_of_volume import is_machine_of
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Check, Update
from podferry.services.experience import Experiences
from podferry.services.operations import Operations
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class FinishStart:
    """Running: in one transaction with the proof that everything before it holds."""

    records: Records
    operations: Operations
    experiences: Experiences

    def run(self, operation_id: str) -> dict[str, Any]:
        """Raises: OperationCancelledError, ConflictError (run it again)."""
        operation = self.operations.load(operation_id)
        if operation.state != OperationState.SUCCEEDED:
            self.records.apply(lambda: self._plan(operation_id))
            ready = self.records.store.get(Machine, operation.machine_id or "")
            self.experiences.started(ready)
        self.operations.answer_waiter(operation_id)
        return {}

    def _plan(self, operation_id: str) -> Sequence[Change]:
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        pod = self.operations.pod_of(operation)
        machine = self.records.store.get(Machine, operation.machine_id or "")
        volume = self.records.store.get(Volume, pod.volume_id)
        results = self._results(operation)
        is_current = is_machine_of(volume, pod, machine) and machine.clearance is None
        if not is_current or machine.registered_at is None:
            raise InternalError(f"machine {machine.id} is not the one that pod {pod.id} waits for")
        now = self.records.now()
        marked = self.operations.with_milestone(operation, "ready")
        return [
            Update(
                replace(
                    pod,
                    state=PodState.RUNNING,
                    operation_id=operation.parent_id,
                    started_at=now,
                    last_error=None,
                )
            ),
            Update(replace(machine, state=MachineState.READY, ready_at=now)),
            Update(
                self.operations.ended(
                    marked,
                    OperationState.SUCCEEDED,
                    result={
                        "machine_id": machine.id,
                        "offer": machine.offer.id,
                        **results,
                        **_recovery(pod, operation),
                    },
                )
            ),
            *([] if pod.is_reader else [Check(volume)]),
            self.records.pod_event(
                pod, "pod.running", operation, machine_id=machine.id, epoch=machine.epoch
            ),
        ]

    def _results(self, operation: Operation) -> dict[str, Any]:
        """What the agent reported, by step.

        Raises:
            InternalError: a command of this start is missing or failed; then it is not running.
        """
        results: dict[str, Any] = {}
        for command_id in operation.commands:
            command = self.records.store.get(Command, command_id)
            if command.machine_id != operation.machine_id:
                continue
            if command.state != CommandState.SUCCEEDED or command.step is None:
                raise InternalError(f"command {command.id} is {command.state}, not succeeded")
            results[command.step.replace("-", "_")] = command.result
        missing = _needed_results(operation) - set(results)
        if missing:
            raise InternalError(f"operation {operation.id} has no result of {sorted(missing)}")
        return results


def _recovery(pod: Pod, operation: Operation) -> dict[str, Any]:
    """What a recovery says of the state that the pod comes back with."""
    if operation.kind != OperationKind.RECOVER or pod.recovered_from is None:
        return {}
    return {"recovered_from": pod.recovered_from.as_result()}


def _needed_results(operation: Operation) -> set[str]:
    """Running means usable: what was expected is restored, and the pod was probed."""
    needed = {"run"}
    if operation.environment_snapshot_id is not None:
        needed.add("restore_environment")
    if operation.volume_snapshot_id is not None:
        needed.add("restore_volume")
    return needed
