"""Start operations again whose workflow execution died."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.errors import PodferryError
from podferry.domain.ghost import Ghost
from podferry.domain.machine import Machine
from podferry.domain.metering import Meter
from podferry.domain.operation import Operation, execution_name
from podferry.domain.pod import Pod
from podferry.ports.store import Change, Update
from podferry.ports.surroundings import Signals
from podferry.ports.workflows import ExecutionStatus, Workflows
from podferry.services.operations import WORKFLOW_OF, Operations
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Truth is the row: an operation that runs without an execution gets a new one."""

    records: Records
    operations: Operations
    workflows: Workflows
    signals: Signals

    def run(self) -> dict[str, int]:
        """Restart what died; switch the schedule off when nothing is left to look after."""
        active = self.records.store.list_active(Operation)
        # A save has no execution: its agent carries it.
        listed = [operation for operation in active if operation.kind in WORKFLOW_OF]
        restarted = sum(self._look_after(operation) for operation in listed)
        if self._is_quiet():
            self.operations.schedules.disable()
            # Something may have begun between the look and the switch.
            if not self._is_quiet():
                self.operations.schedules.enable()
        return {"restarted": restarted}

    def _is_quiet(self) -> bool:
        return not any(
            any(True for _ in self.records.store.list_active(kind))
            for kind in (Operation, Machine, Pod, Ghost, Meter)
        )

    def _look_after(self, operation: Operation) -> bool:
        """One operation that cannot be looked after now does not keep others from it."""
        try:
            return self._restart(operation)
        except PodferryError:
            self.signals.count("ReconcileFailed")
            return False

    def _restart(self, listed: Operation) -> bool:
        status = self.workflows.status(WORKFLOW_OF[listed.kind], execution_name(listed))
        if status == ExecutionStatus.RUNNING:
            return False
        if status == ExecutionStatus.MISSING:
            # Its starter died, or is about to start it: the same name twice is one execution.
            self.operations.launch_execution(listed)
            return True

        def plan() -> Sequence[Change]:
            fresh = self.operations.load(listed.id)
            if not fresh.is_active or fresh.execution != listed.execution:
                return []
            # A stop whose gate kept failing gets its ways to the gate anew.
            raised = replace(fresh, execution=fresh.execution + 1, assessments=0)
            return [
                Update(raised),
                *self.operations.told(
                    fresh, "operation.execution_restarted", execution=raised.execution
                ),
            ]

        self.records.apply(plan)
        fresh = self.operations.load(listed.id)
        if not fresh.is_active:
            return False
        self.signals.count("ExecutionRestarted")
        self.operations.launch_execution(fresh)
        return True
