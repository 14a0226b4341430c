"""After the gate: the machine goes, and the pod is stopped when it is proven gone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from podferry.domain.errors import InternalError, MachineLostError
from podferry.domain.machine import FINAL_STATES, Machine, MachineState
from podferry.domain.operation import Operation, OperationState
from podferry.domain.pod import Failure, Pod, PodState, RecoveredFrom
from podferry.domain.snapshot import Snapshot
from podferry.domain.use_of_volume import left
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Update
from podferry.services.giving_up import GiveUp, machine_cost
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.recover.left import heard_at, state_left


@dataclass(frozen=True, slots=True)
class GiveUpMachine:
    """Ask the provider once; the workflow looks and asks again until it is gone."""

    operations: Operations
    give_up: GiveUp

    def run(self, operation_id: str) -> dict[str, Any]:
        """Raises: InternalError: nothing clears the machine to be given up."""
        operation = self.operations.load(operation_id)
        if not operation.is_point_of_no_return:
            raise InternalError(f"operation {operation.id} has committed nothing")
        self.operations.note(operation_id, "giving_up")
        return self.give_up.ask(operation.machine_id or "")


@dataclass(frozen=True, slots=True)
class AwaitGone:
    """One look at the provider."""

    operations: Operations
    give_up: GiveUp

    def run(self, operation_id: str) -> dict[str, Any]:
        """`{"is_gone": true}`, or false with the seconds to wait."""
        operation = self.operations.load(operation_id)
        return self.give_up.look(operation.machine_id or "")


@dataclass(frozen=True, slots=True)
class FinishStop:
    """Stopped: billing is closed, the lease is free, the receipt is written."""

    records: Records
    operations: Operations

    def run(self, operation_id: str) -> dict[str, Any]:
        """`{"outcome": "stopped"}`, or `"lost"` when the machine went before its capture.

        Raises:
            InternalError: the machine is not proven gone.
        """
        if self.operations.load(operation_id).state == OperationState.RUNNING:
            self.records.apply(lambda: self._plan(operation_id))
        self.operations.answer_waiter(operation_id)
        ended = self.operations.load(operation_id).state
        return {"outcome": "stopped" if ended == OperationState.SUCCEEDED else "lost"}

    def _plan(self, operation_id: str) -> Sequence[Change]:
        operation = self.operations.load(operation_id)
        pod = self.operations.pod_of(operation)
        machine = self.records.store.get(Machine, operation.machine_id or "")
        volume = self.records.store.get(Volume, pod.volume_id)
        if machine.state not in FINAL_STATES:
            raise InternalError(f"machine {machine.id} is {machine.state}, not gone")
        marked = self.operations.with_milestone(operation, "released")
        is_lost = machine.state == MachineState.LOST and bool(operation.lost)
        failure = None
        if is_lost:
            failure = Failure(
                code=MachineLostError.code, detail="; ".join(operation.lost), at=self.records.now()
            )
        ended = self.operations.ended(
            marked,
            OperationState.FAILED if is_lost else OperationState.SUCCEEDED,
            result=self._receipt(marked, pod, machine),
            error=None if failure is None else {"code": failure.code, "detail": failure.detail},
        )
        return [
            Update(
                replace(
                    pod,
                    state=PodState.STOPPED,
                    machine_id=None,
                    operation_id=operation.parent_id,
                    started_at=None,
                    recovered_from=self._left(operation, pod, machine, volume),
                    last_error=failure,
                )
            ),
            Update(left(volume, pod)),
            Update(ended),
            self.records.pod_event(
                pod, "pod.stopped", operation, machine_id=machine.id, lost=list(operation.lost)
            ),
        ]

    def _left(
        self, operation: Operation, pod: Pod, machine: Machine, volume: Volume
    ) -> RecoveredFrom | None:
        """What the next start goes on from, if the volume could not be captured."""
        if operation.volume_snapshot_id is not None or pod.is_reader:
            return None
        return state_left(self.records, volume, heard_at(self.records, machine))

    def _receipt(self, operation: Operation, pod: Pod, machine: Machine) -> dict[str, Any]:
        return {
            **({"not_captured": _READ_ONLY} if pod.is_reader else {}),
            "machine_id": machine.id,
            "provider": machine.offer.provider,
            "clearance": machine.clearance,
            "environment": self._capture(operation.environment_snapshot_id),
            "volume": self._capture(operation.volume_snapshot_id),
            "lost": list(operation.lost),
            "billed_from": _text(machine.billed_from),
            "billed_to": _text(machine.released_at),
            "cost_microusd": machine_cost(machine),
        }

    def _capture(self, snapshot_id: str | None) -> dict[str, Any] | None:
        if snapshot_id is None:
            return None
        snapshot = self.records.store.get(Snapshot, snapshot_id)
        digest = None if snapshot.root is None else snapshot.root.sha256
        named = {} if snapshot.label is None else {"label": snapshot.label}
        return {"snapshot_id": snapshot.id, "root_sha256": digest, **named, **snapshot.summary}


_READ_ONLY = "the pod only reads its volume: what it wrote to /workspace went with its machine"


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
