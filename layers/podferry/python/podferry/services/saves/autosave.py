"""Once a minute, while anything runs: due saves begin, late ones are told of, old ones thinned."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.command import ENDED, Command
from podferry.domain.errors import PodferryError
from podferry.domain.machine import Pulse
from podferry.domain.pod import Pod, PodState
from podferry.domain.state_word import SILENCE
from podferry.ports.store import Change, Update
from podferry.ports.surroundings import Signals
from podferry.services.idle.unevaluated import TellUnevaluated
from podferry.services.records import Records
from podferry.services.saves.begin import BeginSave
from podferry.services.saves.end import EndSave
from podferry.services.saves.rows import Place, command_id_of, place_of
from podferry.services.saves.thin import ThinSaves


@dataclass(frozen=True, slots=True)
class Autosave:
    """The agents have timers of their own; this finds what they do not do, and says so."""

    records: Records
    begin: BeginSave
    end: EndSave
    thin: ThinSaves
    signals: Signals
    idle: TellUnevaluated

    def run(self) -> dict[str, int]:
        """One round over all running pods."""
        running = [p for p in self.records.store.list_active(Pod) if p.state == PodState.RUNNING]
        late = sum(self._look_after(pod) for pod in running)
        if late:
            self.signals.count("SavesFailing", late)
        return {"running": len(running), "late": late, "idle_unevaluated": self.idle.run()}

    def _look_after(self, pod: Pod) -> bool:
        """Whether its saves are overdue. One pod that is in trouble does not keep others."""
        try:
            place = place_of(self.records, pod.id)
            if place is None:
                return False
            self._heal(place)
            if self._is_heard(place):
                self.begin.if_due(pod.id)
            self.thin.run_if_due(place.volume)
            return self._is_late(pod.id)
        except PodferryError:
            self.signals.count("AutosaveFailed")
            return False

    def _heal(self, place: Place) -> None:
        """A command that ended while its save stayed open: whoever was to end it died."""
        open_id = place.saving.open_id
        if open_id is None:
            return
        command = self.records.store.find(Command, command_id_of(open_id))
        if command is None:
            self.end.fail(open_id, {"code": "save_expired", "detail": "it took more than a day"})
        elif command.state in ENDED:
            self.end.command_ended(command)

    def _is_heard(self, place: Place) -> bool:
        """A silent agent would not begin; when it is back, its own timer asks."""
        pulse = self.records.store.find(Pulse, place.machine.id)
        return pulse is not None and self.records.now() - pulse.heard_at <= SILENCE

    def _is_late(self, pod_id: str) -> bool:
        place = place_of(self.records, pod_id)
        if place is None or self.records.now() < place.overdue_at:
            return False
        self.records.apply(lambda: self._told(pod_id))
        return True

    def _told(self, pod_id: str) -> Sequence[Change]:
        place = place_of(self.records, pod_id)
        if place is None or place.saving.is_overdue:
            return []
        saved_at = place.volume.saved_at
        told = replace(place.volume, saving=replace(place.saving, is_overdue=True))
        event = self.records.background_event(
            place.pod,
            "pod.saves_overdue",
            saved_at=None if saved_at is None else saved_at.isoformat(),
            failures=place.saving.failures,
        )
        return [Update(told), event]
