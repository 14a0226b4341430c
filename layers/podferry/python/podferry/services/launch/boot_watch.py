"""Looks at a machine that boots: what its provider says, and whether it still has time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from podferry.domain.errors import BootFailedError, PriceRaisedError, ProviderBusyError
from podferry.domain.host_key import SSH_PORT
from podferry.domain.machine import Login, Machine, MachineState, PublicPort
from podferry.domain.operation import Operation
from podferry.ports.gpu_cloud import GpuCloud, MachineView, ViewState
from podferry.ports.store import Change, Update
from podferry.services.experience import Experiences
from podferry.services.launch.request import ports_of
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
class BootWatch:
    """Shared by the steps that wait for a machine."""

    records: Records
    operations: Operations
    experiences: Experiences

    def look(self, operation: Operation, machine: Machine, cloud: GpuCloud) -> Machine:
        """The machine after a look, if one is due; a look that fails changes nothing.

        Raises:
            BootFailedError: the provider says that it will not come.
            PriceRaisedError: the contract costs more than the pod's cap.
        """
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
        seen = partial(self._seen, operation, view, now, is_good=refusal is None)
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
        self, operation: Operation, view: MachineView, now: datetime, *, is_good: bool
    ) -> Sequence[Change]:
        """That it was shown is kept also of a machine that is refused: its end is proven by it.

        `looked_at` is not: a run of this step that comes again must refuse the machine again.
        """
        machine = self.records.store.get(Machine, operation.machine_id or "")
        is_first = machine.shown_at is None and view.stamp is not None
        shown = replace(machine, shown_at=now) if is_first else machine
        if not is_good:
            return [Update(shown)] if is_first else []
        word = f"{view.state} {view.raw_status} {view.reason or ''}".strip()
        if word != machine.provider_word:
            shown = replace(shown, provider_word=word, progress_at=now)
        is_there = view.state in {ViewState.PULLING, ViewState.STARTING}
        booting = is_there and machine.state == MachineState.PROVISIONING
        looked = replace(
            shown,
            state=MachineState.BOOTING if booting else machine.state,
            login=view.login or machine.login,
            ports=view.ports or self._ports_at(view.login, operation) or machine.ports,
            price_microusd_per_hour=(
                view.price_microusd_per_hour or machine.price_microusd_per_hour
            ),
            billing_started_at=machine.billing_started_at or view.billing_started_at,
            looked_at=now,
        )
        return [Update(looked)]

    def _ports_at(self, login: Login | None, operation: Operation) -> tuple[PublicPort, ...]:
        """The pod's ports on a machine that is let as it is: they are the machine's own."""
        if login is None:
            return ()
        ports = ports_of(self.operations.pod_of(operation))
        return tuple(
            PublicPort(
                internal=port, host=login.host, external=login.port if port == SSH_PORT else port
            )
            for port in ports
        )

    def check_deadline(self, machine: Machine, cloud: GpuCloud) -> None:
        """Raises: BootFailedError: it had its time."""
        patience = timedelta(seconds=self.experiences.boot_deadline(cloud, machine))
        now = self.records.now()
        if now > gives_up_at(machine, patience):
            asked = machine.requested_at or machine.created_at
            raise BootFailedError(
                f"machine {machine.id}: its agent did not report within "
                f"{(now - asked).total_seconds():.0f} s; its provider last said: "
                f"{machine.provider_word or 'nothing'}{_in_the_way(machine)}"
            )

    def wait_seconds(self, machine: Machine) -> int:
        """Seconds to the next look.

        Ever longer: all looks of a launch, at twenty offers perhaps, have to fit into the history
        of one execution (25,000 events).
        """
        asked = machine.requested_at or machine.created_at
        age = (self.records.now() - asked).total_seconds()
        return next((wait for until, wait in WAITS if age < until), LONGEST_WAIT_SECONDS)


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


def _in_the_way(machine: Machine) -> str:
    word = None if machine.install is None else machine.install.word
    return "" if word is None else f"; over SSH: {word}"
