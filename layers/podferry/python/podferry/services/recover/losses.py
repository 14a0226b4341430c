"""Find the pods whose machine is lost (promise 8, case S3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from podferry.domain.entity import NO_ACCOUNT
from podferry.domain.errors import PodferryError
from podferry.domain.loss import LONGEST_GAP, SHORTEST_PATIENCE, Watch, Word, is_lost
from podferry.domain.machine import FINAL_STATES, Machine
from podferry.domain.pod import Pod, PodState
from podferry.ports.store import Change, Create, Update
from podferry.ports.surroundings import Signals
from podferry.services.giving_up import GiveUp, Proof
from podferry.services.records import Records
from podferry.services.recover.left import heard_at
from podferry.services.recover.seal import Evidence, SealLoss

WATCH_ID = "watch_losses"
_WORDS = {
    Proof.GONE: Word.GONE,
    Proof.HALTED: Word.HALTED,
    Proof.RECLAIMED: Word.RECLAIMED,
    Proof.NO_ANSWER: Word.NO_ANSWER,
}


@dataclass(frozen=True, slots=True)
class FindLosses:
    """A pod that should run, a silent agent, and a provider that does not say that it runs.

    A pod with an operation at work is left to it: a stop proves the loss by itself.
    """

    records: Records
    give_up: GiveUp
    seal: SealLoss
    signals: Signals

    def run(self) -> int:
        """One look at every running pod; how many losses were sealed."""
        self.records.apply(self._looked)
        since = self.records.store.get(Watch, WATCH_ID).since
        running = [p for p in self.records.store.list_active(Pod) if p.state == PodState.RUNNING]
        return sum(self._look_after(pod, since) for pod in running)

    def _looked(self) -> Sequence[Change]:
        now = self.records.now()
        watch = self.records.store.find(Watch, WATCH_ID)
        if watch is None:
            watch = Watch(
                id=WATCH_ID, account_id=NO_ACCOUNT, created_at=now, since=now, looked_at=now
            )
            return [Create(watch)]
        since = watch.since if now - watch.looked_at <= LONGEST_GAP else now
        return [Update(replace(watch, since=since, looked_at=now))]

    def _look_after(self, pod: Pod, watched_since: datetime) -> bool:
        """One pod that is in trouble does not keep others from it."""
        try:
            if pod.operation_id is not None or pod.machine_id is None:
                return False
            machine = self.records.store.get(Machine, pod.machine_id)
            evidence = self._evidence(machine, watched_since)
            return evidence is not None and self.seal.run(pod.id, evidence) is not None
        except PodferryError:
            self.signals.count("SweepFailed")
            return False

    def _evidence(self, machine: Machine, watched_since: datetime) -> Evidence | None:
        heard = heard_at(self.records, machine)
        if machine.state in FINAL_STATES:
            return Evidence(machine.id, Word.GONE, heard)
        now = self.records.now()
        silence = now - max(heard, watched_since)
        if silence <= SHORTEST_PATIENCE:
            return None  # The provider is not asked about machines that are well.
        word = _WORDS.get(self.give_up.word(machine))
        if word is None or not is_lost(machine, word, silence, now):
            return None
        return Evidence(machine.id, word, heard)
