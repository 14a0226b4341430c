"""Once a minute, while anything runs: idle pods are warned of, and later stopped."""

from dataclasses import dataclass, replace

from podferry.domain.errors import ConflictError, PodferryError
from podferry.domain.idle import (
    Evaluation,
    IdleWatch,
    Step,
    advanced,
    begun,
    due,
    evaluate,
    stops_at,
)
from podferry.domain.machine import Pulse
from podferry.domain.operation import Cause, Operation
from podferry.ports.store import Change, Check
from podferry.ports.surroundings import Signals
from podferry.services.idle.rows import (
    WatchedPlace,
    evidence_of,
    watch_of,
    watched_place,
    watched_pods,
)
from podferry.services.records import Records
from podferry.services.stop_pod import StopPod


@dataclass(frozen=True, slots=True)
class _Look:
    """One evaluation of one pod, and the rows that it was made from."""

    at: WatchedPlace
    pulse: Pulse | None
    before: IdleWatch
    after: IdleWatch
    seen: Evaluation


@dataclass(frozen=True, slots=True)
class StopIdle:
    """Evaluates each policy; the stop is that of `StopPod`, as for every cause (promise 9)."""

    records: Records
    stop_pod: StopPod
    signals: Signals

    def run(self) -> int:
        """One look at every pod with a policy; how many stops were asked for."""
        pods = watched_pods(self.records)
        if not pods:
            return 0
        busy = {operation.pod_id for operation in self.records.store.list_active(Operation)}
        return sum(self._look_after(pod.id, is_busy=pod.id in busy) for pod in pods)

    def _look_after(self, pod_id: str, *, is_busy: bool) -> bool:
        """One pod that is in trouble does not keep others from it."""
        try:
            look = self._look(pod_id, is_busy=is_busy)
            if look is None:
                return False
            step = due(look.after, self.records.now())
            if step == Step.STOP:
                self._stop(look)
                return True
            self.records.store.commit(*self._changes(look, step))
        except ConflictError:
            # Something moved between the look and the write: the next minute sees what.
            return False
        except PodferryError:
            self.signals.count("IdleEvaluationFailed")
        return False

    def _look(self, pod_id: str, *, is_busy: bool) -> _Look | None:
        at = watched_place(self.records, pod_id)
        if at is None:
            return None
        pulse, now = self.records.store.find(Pulse, at.place.machine.id), self.records.now()
        evidence = evidence_of(self.records, at.place, pulse, is_busy=is_busy)
        seen = evaluate(at.policy, evidence, now)
        before = watch_of(self.records, at)
        return _Look(at, pulse, before, advanced(before, seen, now), seen)

    def _changes(self, look: _Look, step: Step) -> list[Change]:
        if step == Step.WARN:
            return self._warned(look, replace(look.after, warned_at=self.records.now()))
        if look.before.warned_at is not None and look.after.warned_at is None:
            return self._called_off(look)
        return [look.at.write(look.after)]

    def _warned(self, look: _Look, watch: IdleWatch) -> list[Change]:
        pod, since, stops = look.at.place.pod, watch.idle_since, stops_at(watch)
        event = self.records.background_event(
            pod,
            "pod.idle_warning",
            idle_since=since and since.isoformat(),
            stops_at=stops and stops.isoformat(),
            signals=[str(signal) for signal in watch.policy.signals],
        )
        # Not one of a pod that is being stopped.
        return [look.at.write(watch), event, Check(pod)]

    def _called_off(self, look: _Look) -> list[Change]:
        pod, seen = look.at.place.pod, look.seen
        event = self.records.background_event(
            pod, "pod.idle_warning_over", verdict=seen.verdict, reason=seen.doubt
        )
        return [look.at.write(look.after), event, Check(pod)]

    def _stop(self, look: _Look) -> None:
        """Should it fail, the pod has the whole time again, and another warning.

        Raises:
            ConflictError: its agent has spoken since the look, or something else moved.
        """
        pod = look.at.place.pod
        afresh = begun(look.before, look.at.policy, self.records.now())
        rows = [look.at.write(afresh), *([] if look.pulse is None else [Check(look.pulse)])]
        self.stop_pod.ask(pod.account_id, pod.id, accept_loss=False, cause=Cause.IDLE, also=rows)
