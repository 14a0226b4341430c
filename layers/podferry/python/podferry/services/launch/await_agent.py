"""Wait for the agent's registration, watching what the provider says meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from podferry.domain.errors import BootFailedError, PriceRaisedError, ProviderBusyError
from podferry.domain.floor import made_on, with_floor
from podferry.domain.machine import Machine, MachineState
from podferry.domain.operation import Operation
from podferry.domain.placement import takes_cuda
from podferry.domain.pod import Pod, PodState
from podferry.ports.gpu_cloud import GpuCloud, MachineView, ViewState
from podferry.ports.store import Change, Update
from podferry.services.clouds import Clouds
from podferry.services.experience import Experiences
from podferry.services.launch.choose import origin_of
from podferry.services.operations import Operations
from podferry.services.records import Records

WAITS = ((60, 1), (300, 5))
"""Up to which age of a boot, in seconds, how long it is waited between two looks."""
LONGEST_WAIT_SECONDS = 10
MOST_EXTENSIONS = 3
DEAD = {
    ViewState.FAILED: "the provider reports that it failed",
    ViewState.GONE: "the provider reports that it is gone",
    ViewState.LOST: "the provider reports its host as lost",
    ViewState.STOPPED: "the provider reports that it stopped",
    ViewState.RECLAIMED: "the provider has taken it back",
}


@dataclass(frozen=True, slots=True)
class AwaitAgent:
    """One look; the workflow waits between looks."""

    records: Records
    operations: Operations
    clouds: Clouds
    experiences: Experiences

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
            machine = self._look(operation, machine, cloud)
        if _is_seen(machine):
            self._check_floor(operation, machine)
            self._restoring(operation.id)
            return {"is_registered": True}
        self._check_deadline(machine, cloud)
        return {"is_registered": False, "wait_seconds": self._wait(machine)}

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
        is_hidden = self._is_hidden(machine, view, cloud)
        if is_hidden and not is_waiting:
            return machine
        refusal = None if is_hidden else self._refusal(operation, machine, view)
        seen = partial(self._seen, machine.id, view, now, is_good=refusal is None)
        self.records.apply(seen)
        if refusal is not None:
            raise refusal
        return self.records.store.get(Machine, machine.id)

    def _is_hidden(self, machine: Machine, view: MachineView, cloud: GpuCloud) -> bool:
        """Not visible yet: a young machine that is missing proves nothing."""
        settled_at = machine.unlisted_until(cloud.traits.listing_settles_seconds)
        is_missing = view.state == ViewState.GONE and view.stamp is None
        return is_missing and self.records.now() <= settled_at

    def _refusal(
        self, operation: Operation, machine: Machine, view: MachineView
    ) -> BootFailedError | PriceRaisedError | None:
        """Why it is not waited for: it will not come, or costs too much."""
        if view.state in DEAD:
            return BootFailedError(f"machine {machine.id}: {DEAD[view.state]} ({view.raw_status})")
        pod = self.operations.pod_of(operation)
        cap = (operation.requirements or pod.requirements).max_price_microusd_per_hour
        price = view.price_microusd_per_hour
        if cap is None or price is None or price <= cap:
            return None
        return PriceRaisedError(
            f"machine {machine.id} costs {price} micro-USD per hour, the cap is {cap}"
        )

    def _seen(
        self, machine_id: str, view: MachineView, now: datetime, *, is_good: bool
    ) -> Sequence[Change]:
        """That it was shown is kept also of a machine that is refused: its end is proven by it.

        `looked_at` is not: a run of this step that comes again must refuse the machine again.
        """
        machine = self.records.store.get(Machine, machine_id)
        is_first = machine.shown_at is None and view.stamp is not None
        shown = replace(machine, shown_at=now) if is_first else machine
        if not is_good:
            return [Update(shown)] if is_first else []
        word = f"{view.state} {view.raw_status} {view.reason or ''}".strip()
        if word != machine.provider_word:
            shown = replace(shown, provider_word=word, progress_at=now)
        booting = view.state == ViewState.STARTING and machine.state == MachineState.PROVISIONING
        looked = replace(
            shown,
            state=MachineState.BOOTING if booting else machine.state,
            ports=view.ports or machine.ports,
            price_microusd_per_hour=(
                view.price_microusd_per_hour or machine.price_microusd_per_hour
            ),
            billing_started_at=machine.billing_started_at or view.billing_started_at,
            looked_at=now,
        )
        return [Update(looked)]

    def _check_deadline(self, machine: Machine, cloud: GpuCloud) -> None:
        patience = timedelta(seconds=self.experiences.boot_deadline(cloud, machine))
        now = self.records.now()
        if now > gives_up_at(machine, patience):
            asked = machine.requested_at or machine.created_at
            raise BootFailedError(
                f"machine {machine.id}: its agent did not report within "
                f"{(now - asked).total_seconds():.0f} s; its provider last said: "
                f"{machine.provider_word or 'nothing'}"
            )

    def _wait(self, machine: Machine) -> int:
        """Seconds to the next look.

        Ever longer: all looks of a launch, at twenty offers perhaps, have to fit into the history
        of one execution (25,000 events).
        """
        asked = machine.requested_at or machine.created_at
        age = (self.records.now() - asked).total_seconds()
        return next((wait for until, wait in WAITS if age < until), LONGEST_WAIT_SECONDS)

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


def gives_up_at(machine: Machine, patience: timedelta) -> datetime:
    """When the boot counts as failed.

    The time runs anew with every change in the provider's words, and stands still while it says
    that it provisions the machine, but for no longer than three times the patience in all (P5: a
    machine that needs 25 minutes is not killed after 10, again and again).
    """
    asked = machine.requested_at or machine.created_at
    latest = asked + MOST_EXTENSIONS * patience
    if (machine.provider_word or "").startswith(ViewState.PROVISIONING):
        return latest
    return min(latest, (machine.progress_at or asked) + patience)


def _is_seen(machine: Machine) -> bool:
    """Registered, and looked at since: the contract's price and the ports come from that look."""
    registered, looked = machine.registered_at, machine.looked_at
    return registered is not None and looked is not None and looked > registered
