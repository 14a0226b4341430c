"""The gate: are the captures good, and if not, may the machine be given up all the same?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.command import Command, CommandKind
from podferry.domain.errors import (
    EpochStaleError,
    SnapshotError,
    SnapshotUnverifiedError,
)
from podferry.domain.machine import Clearance, Machine, MachineState
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState
from podferry.domain.use_of_volume import is_machine_of
from podferry.domain.volume import Environment, Volume
from podferry.ports.store import Change, Update
from podferry.ports.surroundings import Signals
from podferry.services.captures import captured_kinds
from podferry.services.giving_up import clear
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.storage import charged_first
from podferry.services.verification import Cursor, Verdict, VerifySnapshot


@dataclass(frozen=True, slots=True)
class VerifyCaptures:
    """Every way to giving the machine up leads through here (promise 1)."""

    records: Records
    operations: Operations
    verify: VerifySnapshot
    signals: Signals

    def run(self, operation_id: str, cursor: Cursor | None) -> dict[str, Any]:
        """Verify a share of what the captures need.

        Ends with `{"is_done": true}` when both captures are proven, or when the loss of one that
        is not is accepted by the user or proven by the provider.

        Raises:
            SnapshotUnverifiedError: a capture is missing or damaged and its loss is not accepted.
            OperationCancelledError.
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        if operation.is_point_of_no_return:
            return Verdict(None, 0).as_state()  # What is committed was proven, and is final.
        if cursor is None:
            self.records.apply(lambda: self._pin(operation_id))
            operation = self.operations.load(operation_id)
        pinned = pinned_captures(self.records, operation)
        try:
            verdict = self.verify.run(pinned, cursor, trust_parents=True)
        except SnapshotError as error:
            self.signals.count("VerifyFailed")
            return self._lose_damaged(operation, pinned, error)
        for snapshot in pinned:
            self._count(snapshot, verdict.stored_bytes.get(snapshot.id))
        if verdict.cursor is None:
            self.records.apply(lambda: self._proven(operation))
        return verdict.as_state()

    def _pin(self, operation_id: str) -> Sequence[Change]:
        """Name what will be proven; a capture that arrives later is refused, not slipped in."""
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        snapshots = captures_of(self.records, operation)
        captures = {s.kind: s for s in reversed(snapshots) if s.state == SnapshotState.CAPTURED}
        pod = self.operations.pod_of(operation)
        missing = [kind for kind in captured_kinds(pod) if kind not in captures]
        why = f"no capture of the {' and the '.join(missing)}"
        if missing:
            self._check_loss(operation, why)
        pinned = replace(
            operation,
            environment_snapshot_id=_id_of(captures.get(SnapshotKind.ENVIRONMENT)),
            volume_snapshot_id=_id_of(captures.get(SnapshotKind.VOLUME)),
            is_verified=False,
            lost=_losses(operation, missing, why),
        )
        return [
            Update(pinned),
            *_abandoned([s for s in snapshots if s.state == SnapshotState.OPEN]),
        ]

    def _count(self, snapshot: Snapshot, stored_bytes: int | None) -> None:
        """Note what the capture added to the store; it is charged when it is committed."""
        if stored_bytes is None or snapshot.stored_bytes == stored_bytes:
            return

        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Snapshot, snapshot.id)
            return [Update(replace(fresh, stored_bytes=stored_bytes))]

        self.records.apply(plan)

    def _proven(self, operation: Operation) -> Sequence[Change]:
        fresh = self.operations.load(operation.id)
        if fresh.snapshot_ids != operation.snapshot_ids:
            raise SnapshotUnverifiedError("the captures changed while they were verified")
        return [Update(replace(fresh, is_verified=True))]

    def _lose_damaged(
        self, operation: Operation, captures: Sequence[Snapshot], error: SnapshotError
    ) -> dict[str, Any]:
        """Which one is damaged decides what is lost; the other one is verified by the next run."""
        bad = [s for s in captures if s.id in error.detail] or list(captures)
        self._check_loss(operation, error.detail)

        def plan() -> Sequence[Change]:
            fresh = self.operations.load(operation.id)
            self.operations.check_wanted(fresh)
            snapshots = [self.records.store.get(Snapshot, s.id) for s in bad]
            lost = (*fresh.lost, *(_loss(s.kind, error.detail) for s in snapshots))
            return [Update(replace(fresh, is_verified=False, lost=lost)), *_abandoned(snapshots)]

        self.records.apply(plan)
        return {"is_done": False, "cursor": None, "proven": 0}

    def _check_loss(self, operation: Operation, why: str) -> None:
        machine = self.records.store.get(Machine, operation.machine_id or "")
        if not operation.accept_loss and machine.state != MachineState.LOST:
            raise SnapshotUnverifiedError(why)


@dataclass(frozen=True, slots=True)
class CommitHeads:
    """Both heads in one transaction, for this epoch only; from here on there is no way back."""

    records: Records
    operations: Operations

    def run(self, operation_id: str) -> dict[str, Any]:
        """Raises: EpochStaleError, OperationCancelledError, SnapshotUnverifiedError, ConflictError.

        The last one means: run it again.
        """
        self.records.apply(lambda: self._plan(operation_id))
        return {}

    def _plan(self, operation_id: str) -> Sequence[Change]:
        operation = self.operations.load(operation_id)
        if operation.is_point_of_no_return:
            return []
        self.operations.check_wanted(operation)
        pod = self.operations.pod_of(operation)
        machine = self.records.store.get(Machine, operation.machine_id or "")
        volume = self.records.store.get(Volume, pod.volume_id)
        if not is_machine_of(volume, pod, machine):
            raise EpochStaleError(
                f"machine {machine.id} is of epoch {machine.epoch}; pod {pod.id} or its volume "
                f"{volume.id} has moved on"
            )
        captures = self._proven(operation)
        marked = replace(
            self.operations.with_milestone(operation, "committed"), is_point_of_no_return=True
        )
        return [
            Update(marked),
            Update(clear(machine, _ground(operation, machine))),
            *self._heads(pod, volume, captures),
            self.records.pod_event(
                pod,
                "pod.captured",
                operation,
                environment=marked.environment_snapshot_id,
                volume=marked.volume_snapshot_id,
                lost=list(operation.lost),
            ),
        ]

    def _proven(self, operation: Operation) -> dict[SnapshotKind, Snapshot]:
        captures = pinned_captures(self.records, operation)
        if not operation.is_verified or any(s.state != SnapshotState.CAPTURED for s in captures):
            raise SnapshotUnverifiedError(f"the captures of {operation.id} are not verified")
        return {s.kind: s for s in captures}

    def _heads(
        self, pod: Pod, volume: Volume, captures: dict[SnapshotKind, Snapshot]
    ) -> list[Change]:
        now = self.records.now()
        changes: list[Change] = []
        for capture in captures.values():
            committed = replace(capture, state=SnapshotState.COMMITTED, committed_at=now)
            committed, sums = charged_first(self.records, committed)
            changes += [Update(committed), *sums]
        environment = captures.get(SnapshotKind.ENVIRONMENT)
        if environment is not None:
            row = self.records.store.get(Environment, pod.environment_id)
            size = environment.size_bytes
            changes += [
                Update(replace(pod, environment_head=environment.id)),
                Update(replace(row, head=environment.id, captured_at=now, size_bytes=size)),
            ]
        save = captures.get(SnapshotKind.VOLUME)
        if save is not None:
            size = save.size_bytes
            kept = replace(volume, head=save.id, whole_head=None, saved_at=now, size_bytes=size)
            changes.append(Update(kept))
        return changes


def pinned_captures(records: Records, operation: Operation) -> list[Snapshot]:
    """The captures that this stop verifies and commits, the environment's first."""
    return [records.store.get(Snapshot, pin) for pin in operation.snapshot_ids]


def captures_of(records: Records, operation: Operation) -> list[Snapshot]:
    """Every capture that this stop began, in order."""
    commands = [records.store.get(Command, command_id) for command_id in operation.commands]
    return [
        records.store.get(Snapshot, command.arguments["snapshot_id"])
        for command in commands
        if command.kind == CommandKind.CAPTURE
    ]


def _abandoned(snapshots: Sequence[Snapshot]) -> list[Change]:
    return [Update(replace(s, state=SnapshotState.ABANDONED)) for s in snapshots]


def _ground(operation: Operation, machine: Machine) -> Clearance:
    if not operation.lost:
        return Clearance.CAPTURES_VERIFIED
    return Clearance.PROVEN_GONE if machine.state == MachineState.LOST else Clearance.LOSS_ACCEPTED


def _losses(operation: Operation, missing: Sequence[SnapshotKind], why: str) -> tuple[str, ...]:
    """One line for each missing capture; what is known of a damaged one says more than `why`."""
    return tuple(
        next((line for line in operation.lost if line.startswith(_lost(kind))), _loss(kind, why))
        for kind in missing
    )


def _loss(kind: SnapshotKind, why: str) -> str:
    return f"{_lost(kind)}: {why}"


def _lost(kind: SnapshotKind) -> str:
    return f"changes of the {kind} since its last committed state"


def _id_of(snapshot: Snapshot | None) -> str | None:
    return None if snapshot is None else snapshot.id
