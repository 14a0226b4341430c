"""A provider pushes that something happens to a machine: look now, not in a minute."""

from dataclasses import dataclass

from podferry.domain.machine import Machine, MachineState
from podferry.services.agent.notice import Announcement, TakeNotice
from podferry.services.records import Records
from podferry.services.recover.sweep import Sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """What a provider says of one machine."""

    provider: str
    provider_id: str
    notice: Announcement | None = None
    """Set if the machine still runs and is about to go."""


@dataclass(frozen=True, slots=True)
class Doorbell:
    """A push proves nothing. It may come twice, late, or of a machine that is not ours."""

    records: Records
    notices: TakeNotice
    sweep: Sweep

    def ring(self, push: Push) -> dict[str, int]:
        """Note what is said, have the volume saved, and begin a round of the sweep.

        Nothing happens for a machine that we do not have. Raises: ConflictError (push again).
        """
        machine = self._machine(push)
        if machine is None:
            return {"rung": 0}
        if push.notice is not None and machine.state == MachineState.READY:
            self.notices.give(machine.id, machine.pod_id, push.notice)
        return {"rung": 1, **self.sweep.run()}

    def _machine(self, push: Push) -> Machine | None:
        for machine in self.records.store.list_active(Machine):
            if (machine.offer.provider, machine.provider_id) == (push.provider, push.provider_id):
                return machine
        return None
