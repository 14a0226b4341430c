"""Quiet the pod and tell its agent to capture."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.account import Account
from podferry.domain.command import Command, CommandKind, CommandState
from podferry.domain.machine import Machine, MachineState
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Create, Update
from podferry.services.commands import GiveCommand, Order
from podferry.services.launch.restore import machine_of
from podferry.services.operations import Operations
from podferry.services.records import Records

CAPTURE_SECONDS = 24 * 3600
HOOK_SECONDS = 60
QUIESCE_MARGIN_SECONDS = 60


@dataclass(frozen=True, slots=True)
class BeginStop:
    """Check the wish and mark the machine as draining."""

    records: Records
    operations: Operations

    def run(self, operation_id: str) -> dict[str, Any]:
        """Raises: OperationCancelledError."""
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        self.operations.schedules.enable()

        def plan() -> Sequence[Change]:
            machine = self.records.store.get(Machine, operation.machine_id or "")
            if machine.state != MachineState.READY:
                return []
            return [Update(replace(machine, state=MachineState.DRAINING))]

        self.records.apply(plan)
        self.operations.note(operation_id, "begun")
        return {}


@dataclass(frozen=True, slots=True)
class Quiesce:
    """The on-stop script, SIGTERM, a grace time, then a pause of what is left."""

    records: Records
    operations: Operations
    commands: GiveCommand

    def run(self, operation_id: str, task_token: str) -> None:
        """Give the command; the agent's report answers the token.

        Raises:
            OperationCancelledError, MachineLostError, ConflictError (run it again).
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        earlier = self.commands.latest(operation, "quiesce")
        if earlier is not None:
            self.commands.rejoin(operation, earlier, task_token)
            return
        spec = self.operations.pod_of(operation).spec
        order = Order(
            step="quiesce",
            kind=CommandKind.QUIESCE,
            arguments={
                "on_stop_script": spec.on_stop_script,
                "hook_timeout_seconds": HOOK_SECONDS,
                "grace_seconds": spec.stop_grace_seconds,
            },
            timeout_seconds=HOOK_SECONDS + spec.stop_grace_seconds + QUIESCE_MARGIN_SECONDS,
        )
        machine = machine_of(self.records, operation)
        self.commands.give(operation, machine, order, task_token)


@dataclass(frozen=True, slots=True)
class CaptureSnapshot:
    """One capture; each try writes a snapshot of its own, so a half-done one harms nobody."""

    records: Records
    operations: Operations
    commands: GiveCommand
    kind: SnapshotKind

    def run(self, operation_id: str, task_token: str) -> None:
        """Give the command; the agent's report answers the token.

        Raises:
            OperationCancelledError, MachineLostError, ConflictError (run it again).
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        step = f"capture-{self.kind}"
        earlier = self.commands.latest(operation, step)
        if earlier is not None and earlier.state != CommandState.FAILED:
            self.commands.rejoin(operation, earlier, task_token)
            return
        pod = self.operations.pod_of(operation)
        machine = machine_of(self.records, operation)
        snapshot = self._snapshot(operation, pod, machine)
        order = Order(
            step=step,
            kind=CommandKind.CAPTURE,
            arguments=self._arguments(pod, snapshot),
            timeout_seconds=CAPTURE_SECONDS,
        )
        extra: list[Change] = [Create(snapshot)]
        if earlier is not None:
            extra += self._abandoned(earlier)
        self.commands.give(operation, machine, order, task_token, extra)

    def _snapshot(self, operation: Operation, pod: Pod, machine: Machine) -> Snapshot:
        subject, parent = pod.environment_id, pod.environment_head
        if self.kind == SnapshotKind.VOLUME:
            subject = pod.volume_id
            parent = self.records.store.get(Volume, pod.volume_id).head
        return Snapshot(
            id=self.records.new_id(Snapshot),
            account_id=pod.account_id,
            created_at=self.records.now(),
            kind=self.kind,
            subject_id=subject,
            pod_id=pod.id,
            machine_id=machine.id,
            epoch=machine.epoch,
            operation_id=operation.id,
            parent_id=parent,
        )

    def _arguments(self, pod: Pod, snapshot: Snapshot) -> dict[str, Any]:
        parent = snapshot.parent_id
        return {
            "kind": self.kind,
            "snapshot_id": snapshot.id,
            "attempt_id": snapshot.id,
            "parent": None if parent is None else {"snapshot_id": parent},
            "chunk_key": self.records.store.get(Account, pod.account_id).chunk_key,
            "rules": list(pod.capture_rules),
            "mode": "stop",
        }

    def _abandoned(self, earlier: Command) -> list[Change]:
        snapshot = self.records.store.get(Snapshot, earlier.arguments["snapshot_id"])
        return [Update(replace(snapshot, state=SnapshotState.ABANDONED))]
