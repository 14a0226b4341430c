"""Policies that nobody evaluates: without a word their pods would cost money for ever (case B2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.errors import PodferryError
from podferry.domain.idle import is_unevaluated
from podferry.ports.store import Change
from podferry.ports.surroundings import Signals
from podferry.services.idle.rows import watch_of, watched_place, watched_pods
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class TellUnevaluated:
    """Called by another function than `StopIdle`: a function that is dead cannot say so."""

    records: Records
    signals: Signals

    def run(self) -> int:
        """How many pods have a policy of which for two periods nothing came."""
        late = sum(self._is_late(pod.id) for pod in watched_pods(self.records))
        if late:
            self.signals.count("IdleNotEvaluated", late)
        return late

    def _is_late(self, pod_id: str) -> bool:
        """One pod that is in trouble does not keep others from it."""
        try:
            at = watched_place(self.records, pod_id)
            if at is None:
                return False
            is_late = is_unevaluated(watch_of(self.records, at), self.records.now())
            if at.is_new or is_late:
                self.records.apply(lambda: self._plan(pod_id))
        except PodferryError:
            self.signals.count("IdleEvaluationFailed")
            return False
        return is_late

    def _plan(self, pod_id: str) -> Sequence[Change]:
        at = watched_place(self.records, pod_id)
        if at is None:
            return []
        watch = watch_of(self.records, at)
        if at.is_new:
            # From here on its time is counted, though nobody ever evaluates it.
            return [at.write(watch)]
        if watch.is_told or not is_unevaluated(watch, self.records.now()):
            return []
        evaluated_at = watch.evaluated_at
        event = self.records.background_event(
            at.place.pod,
            "pod.idle_not_evaluated",
            reason=watch.doubt or "nobody has looked",
            evaluated_at=evaluated_at and evaluated_at.isoformat(),
        )
        return [at.write(replace(watch, is_told=True)), event]
