"""Rent the intended machine: one create call, ever (promise 4)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from podferry.domain.boot_key import BootKey
from podferry.domain.errors import (
    BootFailedError,
    CloudError,
    ConflictError,
    NoCapacityError,
    OfferGoneError,
    OutcomeUnknownError,
    ProviderBusyError,
    ProviderRefusedError,
)
from podferry.domain.machine import FINAL_STATES, Machine, MachineState
from podferry.domain.offer import Channel
from podferry.domain.operation import Operation
from podferry.ports.gpu_cloud import GpuCloud, MachineView, ViewState
from podferry.ports.installer import Installer
from podferry.ports.store import Change, Check, Create, Update
from podferry.services.boot_keys import boot_token, spent
from podferry.services.clouds import Clouds
from podferry.services.experience import Experiences
from podferry.services.haunting import note_ghost
from podferry.services.launch.request import LaunchRequests
from podferry.services.operations import Operations
from podferry.services.records import Records

SETTLE_POLL_SECONDS = 3
BUSY_PATIENCE = timedelta(minutes=2)
"""For how long a busy provider is waited for before another offer is tried."""


@dataclass(frozen=True, slots=True)
class Rent:
    """Call the provider once; whatever is unclear afterwards is settled by looking."""

    records: Records
    operations: Operations
    clouds: Clouds
    experiences: Experiences
    requests: LaunchRequests
    installer: Installer

    def run(self, operation_id: str) -> dict[str, Any]:
        """`{"outcome": "rented"}`, or "unknown" or "busy" with `wait_seconds`: run it again then.

        "rented_bare" is rented, too: our bootstrap has to be brought to it, over SSH.

        Raises:
            NoCapacityError and its kind, ProviderRefusedError: nothing stands at the provider.
            ProviderBusyError: nothing was made, the provider stays busy.
            BootFailedError: it is being given back, or its provider never shows it as one.
            OperationCancelledError: no longer wanted (before the call).
            ConflictError: another run of this step makes the call; run it again.
        """
        operation = self.operations.load(operation_id)
        machine = self._machine(operation)
        if machine.clearance is not None:
            raise BootFailedError(f"machine {machine.id} is being given back")
        if machine.state in FINAL_STATES:
            raise OfferGoneError(f"machine {machine.id} was never made")
        if machine.state == MachineState.INTENDED:
            if machine.busy_until is not None and self.records.now() < machine.busy_until:
                return self._later(machine, machine.busy_until)
            return self._create(operation, machine)
        if machine.provider_id is None:
            # Also when its agent has registered already: without the provider's id for it nobody
            # could end it.
            self.operations.check_wanted(operation)
            return self._settle(operation, machine)
        return _rented_outcome(machine)

    def _machine(self, operation: Operation) -> Machine:
        if operation.machine_id is None:
            raise NoCapacityError(f"operation {operation.id} has chosen no offer")
        return self.records.store.get(Machine, operation.machine_id)

    def _create(self, operation: Operation, machine: Machine) -> dict[str, Any]:
        pod = self.requests.bases.settled(self.operations.pod_of(operation), operation)
        key = self._boot_key(machine)
        secret = self.records.randomness.secret() if key is None else key.token_secret()
        token = boot_token(machine.id, secret)
        request = self.requests.of(pod, machine, token, key)
        digest = hashlib.sha256(token.encode()).hexdigest()
        self.records.apply(lambda: self._claim(operation.id, machine.id, digest, key))
        try:
            provider_id = self.clouds.of(machine).create(request)
        except OutcomeUnknownError as error:
            self._ended(machine.id, MachineState.UNKNOWN, note=error.detail)
            return {"outcome": "unknown", "wait_seconds": SETTLE_POLL_SECONDS}
        except ProviderBusyError as error:
            until = self.records.now() + timedelta(seconds=error.retry_after_seconds)
            self._ended(machine.id, MachineState.INTENDED, requested_at=None, busy_until=until)
            return self._later(machine, until)
        except (NoCapacityError, ProviderRefusedError) as error:
            self._nothing_made(operation, machine, error)
            raise
        self._rented(operation, machine, provider_id)
        return _rented_outcome(machine)

    def _boot_key(self, machine: Machine) -> BootKey | None:
        """The key that opens it while it boots, where we have to log in: one for all tries."""
        if machine.offer.channel is not Channel.SSH:
            return None
        present = self.records.store.find(BootKey, machine.id)
        if present is not None:
            return present
        pair = self.installer.make_key()
        return BootKey(
            id=machine.id,
            account_id=machine.account_id,
            created_at=self.records.now(),
            private_key=pair.private_key,
            public_key=pair.public_key,
        )

    def _later(self, machine: Machine, until: datetime) -> dict[str, Any]:
        """Nothing was made: come back when the provider wants to be asked again.

        Raises:
            ProviderBusyError: that is too late; another offer may do.
        """
        wait = (until - self.records.now()).total_seconds()
        if until > machine.created_at + BUSY_PATIENCE:
            raise ProviderBusyError(
                f"{machine.offer.provider} has been too busy to rent for "
                f"{BUSY_PATIENCE.total_seconds():.0f} s",
                retry_after_seconds=wait,
            )
        return {"outcome": "busy", "wait_seconds": max(1, ceil(wait))}

    def _claim(
        self, operation_id: str, machine_id: str, digest: str, key: BootKey | None
    ) -> Sequence[Change]:
        """The right to make the create call, for one run of this step and while it is wanted.

        The row is `requested` before the call: a crash in between is settled by looking.
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        machine = self.records.store.get(Machine, machine_id)
        if machine.state != MachineState.INTENDED or machine.clearance is not None:
            raise ConflictError(f"machine {machine.id} is {machine.state}: another run rents it")
        requested = replace(
            machine,
            state=MachineState.REQUESTED,
            boot_token_sha256=digest,
            requested_at=self.records.now(),
            create_ended_at=None,
        )
        is_new = key is not None and self.records.store.find(BootKey, key.id) is None
        kept = [Create(key)] if key is not None and is_new else []
        return [Check(operation), Update(requested), *kept, self._event(operation, requested, "")]

    def _settle(self, operation: Operation, machine: Machine) -> dict[str, Any]:
        """The create call's outcome is unknown: adopt what carries our stamp, or wait for it."""
        cloud = self.clouds.of(machine)
        standing = [v for v in cloud.find(machine.stamp) if not _is_over(v)]
        if len(standing) == 1:
            self._rented(operation, machine, standing[0].provider_id)
            return _rented_outcome(machine)
        self._check_patience(cloud, machine, has_standing=bool(standing))
        for extra in standing[1:]:
            # Never more than one machine for one intent; looked at again before we go on.
            note_ghost(self.records, cloud, machine.key_of, extra)
            cloud.give_up(extra.provider_id)
        return {"outcome": "unknown", "wait_seconds": SETTLE_POLL_SECONDS}

    def _check_patience(self, cloud: GpuCloud, machine: Machine, *, has_standing: bool) -> None:
        """Whoever catches these errors gives back what stands, and proves that nothing does."""
        now = self.records.now()
        # An agent that has registered proves the machine, whatever the listing says.
        is_seen = has_standing or machine.registered_at is not None
        if not is_seen and now > machine.unlisted_until(cloud.traits.listing_settles_seconds):
            raise OfferGoneError(f"{machine.offer.provider} made no machine {machine.stamp}")
        asked = machine.requested_at or machine.created_at
        if (now - asked).total_seconds() > self.experiences.boot_deadline(cloud, machine):
            raise BootFailedError(f"machine {machine.id}: its provider does not show it as one")

    def _rented(self, operation: Operation, machine: Machine, provider_id: str) -> None:
        self._ended(machine.id, MachineState.PROVISIONING, provider_id=provider_id)
        if self.records.store.get(Machine, machine.id).state in FINAL_STATES:
            # Whoever gave it back waited for this call longer than it can take, yet here it is.
            cloud = self.clouds.of(machine)
            note_ghost(self.records, cloud, machine.key_of, _late(machine, provider_id))
            cloud.give_up(provider_id)
            raise BootFailedError(f"machine {machine.id} was given back before it was made")
        self.operations.note(operation.id, "rented")

    def _nothing_made(self, operation: Operation, machine: Machine, error: CloudError) -> None:
        self._ended(
            machine.id,
            MachineState.RELEASED,
            note=error.detail,
            released_at=self.records.now(),
        )
        if isinstance(error, ProviderRefusedError):
            self._drop_offers_of(operation, machine.offer.provider)

    def _drop_offers_of(self, operation: Operation, provider: str) -> None:
        def plan() -> Sequence[Change]:
            fresh = self.operations.load(operation.id)
            rest = tuple(o for o in fresh.offers if o.provider != provider)
            return [Update(replace(fresh, offers=rest))]

        self.records.apply(plan)

    def _ended(self, machine_id: str, state: MachineState, note: str = "", **fields: Any) -> None:
        """Write down the create call's outcome; a machine that is being given back stays so."""

        def plan() -> Sequence[Change]:
            machine = self.records.store.get(Machine, machine_id)
            if machine.state in FINAL_STATES:
                return []
            fields.setdefault("create_ended_at", machine.create_ended_at or self.records.now())
            changed = replace(machine, state=_state_after(machine, state), **fields)
            if changed.state == machine.state:
                return [Update(changed)]
            operation = self.operations.load(machine.operation_id)
            over = spent(self.records, machine) if state in FINAL_STATES else []
            return [Update(changed), *over, self._event(operation, changed, note)]

        self.records.apply(plan)

    def _event(self, operation: Operation, machine: Machine, note: str) -> Create:
        return self.records.pod_event(
            self.operations.pod_of(operation),
            f"machine.{machine.state}",
            operation,
            machine_id=machine.id,
            provider=machine.offer.provider,
            **({"note": note} if note else {}),
        )


def _late(machine: Machine, provider_id: str) -> MachineView:
    """What is known of it before it was ever listed."""
    return MachineView(
        provider_id=provider_id,
        stamp=machine.stamp,
        state=ViewState.UNKNOWN,
        raw_status="created",
        price_microusd_per_hour=machine.offer.price_microusd_per_hour,
    )


def _state_after(machine: Machine, state: MachineState) -> MachineState:
    if state == MachineState.RELEASED:
        return state
    if machine.clearance is not None:
        return machine.state
    if state == MachineState.PROVISIONING and machine.registered_at is not None:
        return MachineState.BOOTING
    return state


def _rented_outcome(machine: Machine) -> dict[str, Any]:
    is_bare = machine.offer.channel is Channel.SSH
    return {"outcome": "rented_bare" if is_bare else "rented"}


def _is_over(view: MachineView) -> bool:
    return view.state in {ViewState.GONE, ViewState.FAILED}
