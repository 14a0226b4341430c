"""Wait for the agent's registration, watching what the provider says meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.errors import BootFailedError
from podferry.domain.floor import made_on, with_floor
from podferry.domain.machine import Machine
from podferry.domain.operation import Operation
from podferry.domain.placement import takes_cuda
from podferry.domain.pod import Pod, PodState
from podferry.ports.store import Change, Update
from podferry.services.clouds import Clouds
from podferry.services.launch.boot_watch import BootWatch
from podferry.services.launch.choose import origin_of
from podferry.services.operations import Operations
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class AwaitAgent:
    """One look; the workflow waits between looks."""

    records: Records
    operations: Operations
    clouds: Clouds
    watch: BootWatch

    def run(self, operation_id: str) -> dict[str, Any]:
        """`{"is_registered": true}`, or false with the seconds to wait before the next look.

        Raises:
            BootFailedError: the deadline is over, or the provider says it will not come.
            PriceRaisedError: the contract costs more than the pod's cap.
            OperationCancelledError: no longer wanted.
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        machine = self.records.store.get(Machine, operation.machine_id or "")
        cloud = self.clouds.of(machine)
        if not _is_seen(machine):
            machine = self.watch.look(operation, machine, cloud)
        if _is_seen(machine):
            self._check_floor(operation, machine)
            self._restoring(operation.id)
            return {"is_registered": True}
        self.watch.check_deadline(machine, cloud)
        return {"is_registered": False, "wait_seconds": self.watch.wait_seconds(machine)}

    def _check_floor(self, operation: Operation, machine: Machine) -> None:
        """What the offer did not say the agent does: can the environment run here?

        Raises:
            BootFailedError: it cannot; the next offer may.
        """
        pod = self.operations.pod_of(operation)
        asked = operation.requirements or pod.requirements
        wanted = with_floor(asked, origin_of(self.records, pod))
        found = made_on(machine.facts)
        if found is None:
            return
        if wanted.arch not in {None, found.arch}:
            raise BootFailedError(
                f"machine {machine.id} is {found.arch}, the environment was made on {wanted.arch}"
            )
        if wanted.gpu_count > 0 and not takes_cuda(found.cuda, wanted.min_cuda):
            raise BootFailedError(
                f"machine {machine.id} takes programs up to CUDA {found.cuda or 'none'}, "
                f"the environment needs {wanted.min_cuda}: loosen min_cuda or let it look further"
            )

    def _restoring(self, operation_id: str) -> None:
        def plan() -> Sequence[Change]:
            operation = self.operations.load(operation_id)
            self.operations.check_wanted(operation)
            pod: Pod = self.operations.pod_of(operation)
            if pod.state != PodState.LAUNCHING:
                return []
            return [
                Update(replace(pod, state=PodState.RESTORING)),
                Update(self.operations.with_milestone(operation, "agent_registered")),
                self.records.pod_event(
                    pod, "pod.restoring", operation, machine_id=operation.machine_id
                ),
            ]

        self.records.apply(plan)


def _is_seen(machine: Machine) -> bool:
    """Registered, and looked at since: the contract's price and the ports come from that look."""
    registered, looked = machine.registered_at, machine.looked_at
    return registered is not None and looked is not None and looked > registered
