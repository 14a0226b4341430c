"""Machines that were lost and perhaps are not gone: asked about until they are (promise 3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.errors import PodferryError
from podferry.domain.machine import Clearance, Machine, MachineState
from podferry.domain.metering import Meter, reopened
from podferry.domain.pod import Pod
from podferry.ports.store import Change, Update
from podferry.ports.surroundings import Signals
from podferry.services.giving_up import GiveUp
from podferry.services.operations import Operations
from podferry.services.records import Records

NO_WORKFLOW = frozenset({Clearance.DECLARED_LOST, Clearance.PROVEN_GONE})


@dataclass(frozen=True, slots=True)
class FollowLost:
    """No workflow follows a lost machine, so the sweep does."""

    records: Records
    give_up: GiveUp
    signals: Signals

    def run(self) -> int:
        """One request and one look at each; how many are left."""
        left = [
            machine
            for machine in self.records.store.list_active(Machine)
            if machine.state == MachineState.TERMINATING and machine.clearance in NO_WORKFLOW
        ]
        return sum(not self._is_gone(machine) for machine in left)

    def _is_gone(self, machine: Machine) -> bool:
        try:
            self.give_up.ask(machine.id)
            return bool(self.give_up.look(machine.id)["is_gone"])
        except PodferryError:
            self.signals.count("SweepFailed")
            return False


@dataclass(frozen=True, slots=True)
class NoteReturn:
    """A machine that was proven gone has spoken: it was not, and it costs money."""

    records: Records
    operations: Operations
    signals: Signals

    def run(self, machine_id: str) -> None:
        """Take it back among those that have to go; its agent is told to end itself anyway."""
        if self.records.store.get(Machine, machine_id).state != MachineState.LOST:
            return
        self.operations.schedules.enable()
        self.records.apply(lambda: self._plan(machine_id))
        self.signals.count("ReleasedMachineAlive")

    def _plan(self, machine_id: str) -> Sequence[Change]:
        machine = self.records.store.get(Machine, machine_id)
        if machine.state != MachineState.LOST:
            return []
        back = replace(
            machine,
            state=MachineState.TERMINATING,
            clearance=machine.clearance or Clearance.PROVEN_GONE,
            give_up_at=self.records.now(),
            released_at=None,
            missing_since=None,
        )
        pod = self.records.store.get(Pod, machine.pod_id)
        event = self.records.background_event(pod, "machine.came_back", machine_id=machine.id)
        meter = self.records.store.find(Meter, machine.id)
        metering = [] if meter is None or meter.is_active else [Update(reopened(meter))]
        return [Update(back), event, *metering]
