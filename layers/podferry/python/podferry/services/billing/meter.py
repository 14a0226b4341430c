"""Once a minute, while anything runs or is not metered to its end: what machines cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from podferry.domain.errors import PodferryError
from podferry.domain.machine import Machine
from podferry.domain.metering import Meter, metered, new_meter
from podferry.ports.store import Change, Create, Update
from podferry.ports.surroundings import Signals
from podferry.services.billing.posting import posted
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class RunMeters:
    """Adds the rows that are due. Any run may be missed, repeated, late or at the same time.

    The rows, the sums and how far the machine is metered are one transaction on the meter's
    revision, so that an interval is charged once.
    """

    records: Records
    signals: Signals

    def run(self) -> dict[str, int]:
        """One look at every machine that is not metered to its end; how many had rows due."""
        store = self.records.store
        ids = {machine.id for machine in store.list_active(Machine)}
        ids |= {meter.id for meter in store.list_active(Meter)}
        return {"metered": sum(self._look_after(machine_id) for machine_id in sorted(ids))}

    def _look_after(self, machine_id: str) -> bool:
        """One machine that is in trouble does not keep others from it."""
        added: list[bool] = []

        def plan() -> Sequence[Change]:
            changes = self._plan(machine_id)
            added[:] = [bool(changes)]
            return changes

        try:
            self.records.apply(plan)
        except PodferryError:
            # The next minute charges what this one did not.
            self.signals.count("MeterFailed")
            return False
        return added[0]

    def _plan(self, machine_id: str) -> Sequence[Change]:
        # The meter first: a machine that was read before it may be older than what it says.
        stored = self.records.store.find(Meter, machine_id)
        machine = self.records.store.get(Machine, machine_id)
        meter = stored or new_meter(machine, self.records.now())
        due = metered(meter, machine, self.records.now())
        if due.meter == stored:
            return []
        change = Create(due.meter) if stored is None else Update(due.meter)
        return [change, *posted(self.records, due.entries)]
