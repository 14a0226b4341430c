"""A machine under maintenance is left in time, with everything captured (promise 9)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from podferry.domain.errors import PodferryError
from podferry.domain.machine import Machine, MachineState, NoticeKind
from podferry.domain.operation import MAINTENANCE_WAIT, Cause
from podferry.domain.pod import OnReclaim, Pod, PodState, avoid_host
from podferry.ports.store import Change, Update
from podferry.ports.surroundings import Signals
from podferry.services.move_pod import MovePod
from podferry.services.records import Records
from podferry.services.stop_pod import StopPod

MOST_TRIES = 4
BETWEEN_TRIES = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class AnswerNotices:
    """The pod is moved; if nothing is for rent it is stopped and starts as soon as something is.

    A pod that is not to be started by itself (`on_reclaim: stop`) is only stopped.
    """

    records: Records
    move_pod: MovePod
    stop_pod: StopPod
    signals: Signals

    def run(self) -> int:
        """How many pods began to leave their machine."""
        told = [
            machine
            for machine in self.records.store.list_active(Machine)
            if machine.state == MachineState.READY
            and machine.notice is not None
            and machine.notice.kind == NoticeKind.MAINTENANCE
        ]
        return sum(self._answer(machine) for machine in told)

    def _answer(self, machine: Machine) -> bool:
        try:
            pod = self.records.store.get(Pod, machine.pod_id)
            is_there = (pod.state, pod.machine_id) == (PodState.RUNNING, machine.id)
            if not is_there or pod.operation_id is not None or not self._is_due(machine):
                return False
            self._leave(machine, pod)
        except PodferryError:
            self.signals.count("SweepFailed")
            return False
        return True

    def _is_due(self, machine: Machine) -> bool:
        """Each try brings the pod to rest for a while, so they are few and far between."""
        notice = machine.notice
        if notice is None or notice.answers >= MOST_TRIES:
            return False
        return (
            notice.answered_at is None or self.records.now() - notice.answered_at >= BETWEEN_TRIES
        )

    def _leave(self, machine: Machine, pod: Pod) -> None:
        account_id, cause = pod.account_id, Cause.MAINTENANCE
        if pod.on_reclaim == OnReclaim.STOP:
            self.stop_pod.ask(account_id, pod.id, accept_loss=False, cause=cause)
        else:
            self.records.apply(lambda: self._avoiding(machine.id))
            is_first = machine.notice is None or not machine.notice.answers
            wait_until = None if is_first else self.records.now() + MAINTENANCE_WAIT
            self.move_pod.ask(account_id, pod.id, None, cause, wait_until=wait_until)
        self.records.apply(lambda: self._answered(machine.id))

    def _avoiding(self, machine_id: str) -> Sequence[Change]:
        """The pod does not come back to the host that it leaves."""
        machine = self.records.store.get(Machine, machine_id)
        pod = self.records.store.get(Pod, machine.pod_id)
        return [Update(avoid_host(pod, machine.offer, self.records.now()))]

    def _answered(self, machine_id: str) -> Sequence[Change]:
        machine = self.records.store.get(Machine, machine_id)
        notice = machine.notice
        if notice is None:
            return []
        answered = replace(notice, answers=notice.answers + 1, answered_at=self.records.now())
        return [Update(replace(machine, notice=answered))]
