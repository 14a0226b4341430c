"""Quiet the pod and tell its agent to capture."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from podferry.domain.command import CommandKind
from podferry.domain.floor import made_on
from podferry.domain.machine import Machine, MachineState
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Check, Create, Update
from podferry.services.captures import (
    CAPTURE_SECONDS,
    capture_arguments,
    capture_of_same_base,
    captured_kinds,
)
from podferry.services.commands import GiveCommand, Order, machine_of
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.saves.end import EndSave

HOOK_SECONDS = 60
QUIESCE_MARGIN_SECONDS = 60


@dataclass(frozen=True, slots=True)
class BeginStop:
    """Check the wish and mark the machine as draining; a save that is under way is left."""

    records: Records
    operations: Operations
    saves: EndSave

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
        self.saves.supersede(operation.pod_id)
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
        self.commands.once(operation, "quiesce", task_token, partial(self._order, operation))

    def _order(self, operation: Operation) -> Order:
        spec = self.operations.pod_of(operation).spec
        return Order(
            kind=CommandKind.QUIESCE,
            arguments={
                "on_stop_script": spec.on_stop_script,
                "hook_timeout_seconds": HOOK_SECONDS,
                "grace_seconds": spec.stop_grace_seconds,
            },
            timeout_seconds=HOOK_SECONDS + spec.stop_grace_seconds + QUIESCE_MARGIN_SECONDS,
        )


@dataclass(frozen=True, slots=True)
class CaptureSnapshot:
    """One capture; each try writes a snapshot of its own, so a half-done one harms nobody."""

    records: Records
    operations: Operations
    commands: GiveCommand
    kind: SnapshotKind

    def run(self, operation_id: str, task_token: str) -> None:
        """Give the command; the agent's report answers the token. A reader's volume has none.

        Raises:
            OperationCancelledError, MachineLostError, ConflictError (run it again).
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        if self.kind not in captured_kinds(self.operations.pod_of(operation)):
            self.commands.workflows.succeed(task_token, {"captured": None})
            return
        order = partial(self._order, operation)
        self.commands.once(operation, self._step, task_token, order, tries_again=True)

    @property
    def _step(self) -> str:
        return f"capture-{self.kind}"

    def _order(self, operation: Operation) -> Order:
        pod = self.operations.pod_of(operation)
        snapshot = self._snapshot(operation, pod, machine_of(self.records, operation))
        base = self._base(pod)
        if base is not None:
            snapshot = replace(snapshot, parent_id=base.id)
        return Order(
            kind=CommandKind.CAPTURE,
            arguments=capture_arguments(self.records, pod, snapshot, "stop"),
            timeout_seconds=CAPTURE_SECONDS,
            # The check lets no collector take what is built on.
            rows=[
                Create(snapshot),
                *([] if base is None else [Check(base)]),
                *self._abandoned(operation),
            ],
        )

    def _base(self, pod: Pod) -> Snapshot | None:
        """Another pod's capture, if this is an environment's first one."""
        if self.kind == SnapshotKind.VOLUME or pod.environment_head is not None:
            return None
        return capture_of_same_base(self.records, pod)

    def _snapshot(self, operation: Operation, pod: Pod, machine: Machine) -> Snapshot:
        is_environment = self.kind == SnapshotKind.ENVIRONMENT
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
            label=operation.label if self.kind == SnapshotKind.VOLUME else None,
            made_on=made_on(machine.facts) if is_environment else None,
            base=pod.base if is_environment else None,
            setup=pod.spec.setup if is_environment else None,
        )

    def _abandoned(self, operation: Operation) -> list[Change]:
        """The snapshot of the try that failed, if this is not the first."""
        failed = self.commands.latest(operation, self._step)
        if failed is None:
            return []
        snapshot = self.records.store.get(Snapshot, failed.arguments["snapshot_id"])
        return [Update(replace(snapshot, state=SnapshotState.ABANDONED))]
