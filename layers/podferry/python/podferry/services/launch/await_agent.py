"""Wait for the agent's registration, watching what the provider says meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from podferry.domain.errors import BootFailedError, PriceRaisedError, ProviderBusyError
from podferry.domain.machine import Machine, MachineState
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod, PodState
from podferry.ports.gpu_cloud import GpuCloud, GpuClouds, MachineView, ViewState
from podferry.ports.store import Change, Update
from podferry.services.operations import Operations
from podferry.services.records import Records

WAIT_SECONDS = 1
DEAD = {
    ViewState.FAILED: "the provider reports that it failed",
    ViewState.GONE: "the provider reports that it is gone",
    ViewState.LOST: "the provider reports its host as lost",
    ViewState.STOPPED: "the provider reports that it stopped",
}


@dataclass(frozen=True, slots=True)
class AwaitAgent:
    """One look; the workflow waits between looks."""

    records: Records
    operations: Operations
    clouds: GpuClouds

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
        cloud = self.clouds.get(machine.offer.provider)
        if not _is_seen(machine):
            machine = self._look(operation, machine, cloud)
        if _is_seen(machine):
            self._restoring(operation.id)
            return {"is_registered": True}
        self._check_deadline(machine, cloud)
        return {"is_registered": False, "wait_seconds": WAIT_SECONDS}

    def _look(self, operation: Operation, machine: Machine, cloud: GpuCloud) -> Machine:
        now = self.records.now()
        pause = timedelta(seconds=cloud.traits.poll_seconds)
        is_waiting = machine.registered_at is None
        if is_waiting and machine.looked_at is not None and now - machine.looked_at < pause:
            return machine
        try:
            view = cloud.get(machine.provider_id or "")
        except ProviderBusyError:
            return machine  # A look that failed proves nothing; the deadline still runs.
        if view.stamp is not None and machine.shown_at is None:
            self._note_shown(machine.id, now)
        is_shown = self._check_view(operation, machine, view, cloud)
        if not is_shown and not is_waiting:
            return machine

        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Machine, machine.id)
            booting = view.state == ViewState.STARTING and fresh.state == MachineState.PROVISIONING
            return [
                Update(
                    replace(
                        fresh,
                        state=MachineState.BOOTING if booting else fresh.state,
                        ports=view.ports or fresh.ports,
                        price_microusd_per_hour=(
                            view.price_microusd_per_hour or fresh.price_microusd_per_hour
                        ),
                        billing_started_at=fresh.billing_started_at or view.billing_started_at,
                        looked_at=now,
                    )
                )
            ]

        self.records.apply(plan)
        return self.records.store.get(Machine, machine.id)

    def _note_shown(self, machine_id: str, now: datetime) -> None:
        def plan() -> Sequence[Change]:
            return [Update(replace(self.records.store.get(Machine, machine_id), shown_at=now))]

        self.records.apply(plan)

    def _check_view(
        self, operation: Operation, machine: Machine, view: MachineView, cloud: GpuCloud
    ) -> bool:
        """Whether the provider shows the machine; raises if it will not come or costs too much."""
        is_young = self.records.now() <= machine.unlisted_until(
            cloud.traits.listing_settles_seconds
        )
        if view.state == ViewState.GONE and view.stamp is None and is_young:
            return False  # Not visible yet: a young machine that is missing proves nothing.
        if view.state in DEAD:
            raise BootFailedError(f"machine {machine.id}: {DEAD[view.state]} ({view.raw_status})")
        pod = self.operations.pod_of(operation)
        cap = (operation.requirements or pod.requirements).max_price_microusd_per_hour
        price = view.price_microusd_per_hour
        if cap is not None and price is not None and price > cap:
            raise PriceRaisedError(
                f"machine {machine.id} costs {price} micro-USD per hour, the cap is {cap}"
            )
        return True

    def _check_deadline(self, machine: Machine, cloud: GpuCloud) -> None:
        asked = machine.requested_at or machine.created_at
        age = (self.records.now() - asked).total_seconds()
        if age > cloud.traits.boot_deadline_seconds:
            raise BootFailedError(
                f"machine {machine.id}: its agent did not report within "
                f"{cloud.traits.boot_deadline_seconds} s"
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
