"""Seal the loss of a machine: fence it, say what is left, start the pod again or leave it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from podferry.domain.errors import MachineLostError
from podferry.domain.loss import Word
from podferry.domain.machine import FINAL_STATES, Clearance, Machine, MachineState, Pulse
from podferry.domain.operation import Cause, Operation, OperationKind, OperationState
from podferry.domain.pod import (
    Desired,
    Failure,
    OnReclaim,
    Pod,
    PodState,
    RecoveredFrom,
    avoid_host,
    check_move,
)
from podferry.domain.use_of_volume import left
from podferry.domain.volume import Lease, Volume
from podferry.ports.store import Change, Check, Create, Update
from podferry.services.experience import Experiences
from podferry.services.giving_up import GiveUp, clear
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.recover.left import state_left
from podferry.services.saves.end import EndSave

MOST_RECOVERIES = 3
WITHIN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a machine counts as lost."""

    machine_id: str
    word: Word
    heard_at: datetime


@dataclass(frozen=True, slots=True)
class SealLoss:
    """One transaction makes the machine a stranger and names what the pod goes on from.

    The machine cannot move the head any more: the epoch is another, the lease is not its own. What
    comes after the commit, the reconciler repeats.
    """

    records: Records
    operations: Operations
    saves: EndSave
    give_up: GiveUp
    experiences: Experiences

    def run(self, pod_id: str, evidence: Evidence) -> Operation | None:
        """The recovery; `None` if the machine spoke meanwhile or something else is at work.

        Raises:
            ConflictError: the rows kept moving.
        """
        operation_id = self.records.new_id(Operation)
        self.operations.schedules.enable()
        self.records.apply(lambda: self._plan(pod_id, operation_id, evidence))
        operation = self.records.store.find(Operation, operation_id)
        if operation is None:
            return None
        lost = self.records.store.get(Machine, evidence.machine_id)
        self.experiences.lost(lost)
        if operation.is_active:
            self.operations.launch_execution(operation)
        # Also a machine that is proven gone: should its provider have erred, it costs money.
        self.give_up.ask(evidence.machine_id)
        return operation

    def _plan(self, pod_id: str, operation_id: str, evidence: Evidence) -> Sequence[Change]:
        pod = self.records.store.get(Pod, pod_id)
        is_other = pod.machine_id != evidence.machine_id or pod.operation_id is not None
        pulse = self.records.store.find(Pulse, evidence.machine_id)
        has_spoken = pulse is not None and pulse.heard_at > evidence.heard_at
        if pod.state != PodState.RUNNING or is_other or has_spoken:
            return []
        machine = self.records.store.get(Machine, evidence.machine_id)
        volume = self.records.store.get(Volume, pod.volume_id)
        operation = self._operation(operation_id, pod, volume, machine)
        remains = self._remains(pod, volume, evidence)
        fenced = self._fenced(pod, volume, starts=operation.state == OperationState.RUNNING)
        return [
            Create(operation),
            Update(self._pod_after(pod, machine, operation, remains)),
            *fenced,
            Update(self._machine_after(machine, evidence)),
            # The agent's next word must come after this, or this does not happen.
            *([] if pulse is None else [Check(pulse)]),
            *self._events(pod, operation, evidence, remains),
        ]

    def _remains(self, pod: Pod, volume: Volume, evidence: Evidence) -> RecoveredFrom | None:
        """Of a reader's volume nothing is lost: it never wrote it."""
        if pod.is_reader:
            return None
        return state_left(self.records, volume, evidence.heard_at)

    def _fenced(self, pod: Pod, volume: Volume, *, starts: bool) -> list[Change]:
        """The volume without the machine, and the save that was under way."""
        if pod.is_reader:
            return [] if starts else [Update(left(volume, pod))]
        idle, saves = self.saves.detached(pod, volume, _LOST)
        lease = Lease(pod_id=pod.id, machine_id=None) if starts else None
        return [Update(replace(idle, epoch=idle.epoch + 1, lease=lease)), *saves]

    def _operation(
        self, operation_id: str, pod: Pod, volume: Volume, machine: Machine
    ) -> Operation:
        """A start if the pod may start again, else one that has ended already."""
        operation = self.operations.with_milestone(
            Operation(
                id=operation_id,
                account_id=pod.account_id,
                created_at=self.records.now(),
                pod_id=pod.id,
                kind=OperationKind.RECOVER,
                cause=Cause.RECLAIM,
                environment_snapshot_id=pod.environment_head,
                volume_snapshot_id=volume.head,
                lost=("everything since the last stop" if pod.is_reader else _SINCE_SAVES,),
            ),
            "asked",
        )
        if pod.on_reclaim == OnReclaim.STOP:
            result = {"outcome": "stopped", "machine_id": machine.id}
            return self.operations.ended(operation, OperationState.SUCCEEDED, result=result)
        if len(self._recent(pod)) >= MOST_RECOVERIES:
            error = {"code": MachineLostError.code, "detail": _TOO_OFTEN}
            return self.operations.ended(operation, OperationState.FAILED, error=error)
        return operation

    def _recent(self, pod: Pod) -> tuple[datetime, ...]:
        now = self.records.now()
        return tuple(at for at in pod.recoveries if now - at < WITHIN)

    def _pod_after(
        self, pod: Pod, machine: Machine, operation: Operation, remains: RecoveredFrom | None
    ) -> Pod:
        now = self.records.now()
        starts = operation.state == OperationState.RUNNING
        target = PodState.RECOVERING if starts else PodState.STOPPED
        check_move(pod, target)
        detail = _TOO_OFTEN if operation.error is not None else f"machine {machine.id} was lost"
        return replace(
            avoid_host(pod, machine.offer, now),
            state=target,
            desired=Desired.RUNNING if starts else Desired.STOPPED,
            operation_id=operation.id if starts else None,
            machine_id=None,
            started_at=None,
            last_error=Failure(code=MachineLostError.code, detail=detail, at=now),
            recoveries=(*self._recent(pod), now) if starts else pod.recoveries,
            recovered_from=remains,
        )

    def _machine_after(self, machine: Machine, evidence: Evidence) -> Machine:
        now = self.records.now()
        if machine.state in FINAL_STATES:
            return clear(machine, Clearance.PROVEN_GONE)
        if evidence.word == Word.GONE:
            gone = replace(machine, state=MachineState.LOST, released_at=now)
            return clear(gone, Clearance.PROVEN_GONE)
        silent = replace(machine, state=MachineState.TERMINATING, give_up_at=now)
        return clear(silent, Clearance.DECLARED_LOST)

    def _events(
        self,
        pod: Pod,
        operation: Operation,
        evidence: Evidence,
        remains: RecoveredFrom | None,
    ) -> list[Change]:
        lost = self.records.pod_event(
            pod,
            "machine.lost",
            operation,
            machine_id=evidence.machine_id,
            provider_says=evidence.word,
            heard_at=evidence.heard_at.isoformat(),
        )
        kind = "pod.recovery_asked"
        if operation.state != OperationState.RUNNING:
            kind = "pod.stopped"
        recovered = None if remains is None else remains.as_result()
        told: dict[str, Any] = {"recovered_from": recovered, "error": operation.error}
        return [lost, self.records.pod_event(pod, kind, operation, **told)]


_SINCE_SAVES = "everything since the last save of the volume and the last stop"
_LOST = {"code": MachineLostError.code, "detail": "the machine that made it was lost"}
_TOO_OFTEN = (
    f"its machines were lost more than {MOST_RECOVERIES} times within an hour, so it is not "
    "started again by itself; start it when you like"
)
