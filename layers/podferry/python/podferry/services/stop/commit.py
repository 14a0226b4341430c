"""The gate: are the captures good, and if not, may the machine be given up all the same?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.command import Command
from podferry.domain.errors import (
    EpochStaleError,
    SnapshotError,
    SnapshotUnverifiedError,
)
from podferry.domain.machine import Clearance, Machine, MachineState
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState
from podferry.domain.volume import Environment, Volume
from podferry.ports.store import Change, Update
from podferry.ports.surroundings import Signals
from podferry.services.giving_up import clear
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.verification import Cursor, VerifySnapshot


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
        captures = captures_of(self.records, operation)
        missing = [kind for kind in SnapshotKind if kind not in captures]
        if missing:
            self._lose(operation, missing, f"no capture of the {' and the '.join(missing)}")
        try:
            verdict = self.verify.run(list(captures.values()), cursor, trust_parents=True)
        except SnapshotError as error:
            self.signals.count("VerifyFailed")
            return self._lose_damaged(operation, captures, error)
        return verdict.as_state()

    def _lose_damaged(
        self, operation: Operation, captures: dict[SnapshotKind, Snapshot], error: SnapshotError
    ) -> dict[str, Any]:
        """Which one is damaged decides what is lost; the other one is verified by the next run."""
        bad = [s for s in captures.values() if s.id in error.detail] or list(captures.values())
        self._lose(operation, [s.kind for s in bad], error.detail)
        for snapshot in bad:
            self._abandon(snapshot)
        return {"is_done": False, "cursor": None, "proven": 0}

    def _lose(self, operation: Operation, kinds: Sequence[SnapshotKind], why: str) -> None:
        machine = self.records.store.get(Machine, operation.machine_id or "")
        if not operation.accept_loss and machine.state != MachineState.LOST:
            raise SnapshotUnverifiedError(why)

        def plan() -> Sequence[Change]:
            fresh = self.operations.load(operation.id)
            known = set(fresh.lost)
            lost = [_loss(kind, why) for kind in kinds]
            new = tuple(line for line in lost if line not in known)
            return [Update(replace(fresh, lost=(*fresh.lost, *new)))] if new else []

        self.records.apply(plan)

    def _abandon(self, snapshot: Snapshot) -> None:
        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Snapshot, snapshot.id)
            return [Update(replace(fresh, state=SnapshotState.ABANDONED))]

        self.records.apply(plan)


@dataclass(frozen=True, slots=True)
class CommitHeads:
    """Both heads in one transaction, for this epoch only; from here on there is no way back."""

    records: Records
    operations: Operations

    def run(self, operation_id: str) -> dict[str, Any]:
        """Raises: EpochStaleError, OperationCancelledError, ConflictError (run it again)."""
        if not self.operations.load(operation_id).is_point_of_no_return:
            self.records.apply(lambda: self._plan(operation_id))
        return {}

    def _plan(self, operation_id: str) -> Sequence[Change]:
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        pod = self.operations.pod_of(operation)
        machine = self.records.store.get(Machine, operation.machine_id or "")
        volume = self.records.store.get(Volume, pod.volume_id)
        if volume.epoch != machine.epoch:
            raise EpochStaleError(
                f"volume {volume.id} is at epoch {volume.epoch}, machine {machine.id} at "
                f"{machine.epoch}"
            )
        captures = captures_of(self.records, operation)
        marked = replace(
            self.operations.with_milestone(operation, "committed"),
            is_point_of_no_return=True,
            environment_snapshot_id=_id_of(captures.get(SnapshotKind.ENVIRONMENT)),
            volume_snapshot_id=_id_of(captures.get(SnapshotKind.VOLUME)),
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

    def _heads(
        self, pod: Pod, volume: Volume, captures: dict[SnapshotKind, Snapshot]
    ) -> list[Change]:
        now = self.records.now()
        changes: list[Change] = [
            Update(replace(s, state=SnapshotState.COMMITTED, committed_at=now))
            for s in captures.values()
        ]
        environment = captures.get(SnapshotKind.ENVIRONMENT)
        if environment is not None:
            row = self.records.store.get(Environment, pod.environment_id)
            size = int(environment.summary.get("bytes", 0))
            changes += [
                Update(replace(pod, environment_head=environment.id)),
                Update(replace(row, head=environment.id, captured_at=now, size_bytes=size)),
            ]
        save = captures.get(SnapshotKind.VOLUME)
        if save is not None:
            size = int(save.summary.get("bytes", 0))
            changes.append(Update(replace(volume, head=save.id, saved_at=now, size_bytes=size)))
        return changes


def captures_of(records: Records, operation: Operation) -> dict[SnapshotKind, Snapshot]:
    """The captures that the agent finished for this stop, by kind."""
    captures: dict[SnapshotKind, Snapshot] = {}
    for command_id in operation.commands:
        command = records.store.get(Command, command_id)
        if "snapshot_id" not in command.arguments:
            continue
        snapshot = records.store.get(Snapshot, command.arguments["snapshot_id"])
        if snapshot.state in {SnapshotState.CAPTURED, SnapshotState.COMMITTED}:
            captures[snapshot.kind] = snapshot
    return captures


def _ground(operation: Operation, machine: Machine) -> Clearance:
    if not operation.lost:
        return Clearance.CAPTURES_VERIFIED
    return Clearance.PROVEN_GONE if machine.state == MachineState.LOST else Clearance.LOSS_ACCEPTED


def _loss(kind: SnapshotKind, why: str) -> str:
    return f"changes of the {kind} since its last committed state: {why}"


def _id_of(snapshot: Snapshot | None) -> str | None:
    return None if snapshot is None else snapshot.id
