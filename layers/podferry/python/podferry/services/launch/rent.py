"""Rent the intended machine: one create call, ever (promise 4)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.account import SshKey
from podferry.domain.errors import (
    CloudError,
    NoCapacityError,
    OfferGoneError,
    OutcomeUnknownError,
    ProviderBusyError,
    ProviderRefusedError,
)
from podferry.domain.machine import Machine, MachineState
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.ports.gpu_cloud import GpuCloud, GpuClouds, LaunchRequest, MachineView, ViewState
from podferry.ports.objects import AgentBundle
from podferry.ports.store import Change, Update
from podferry.services.operations import Operations
from podferry.services.records import Records

SETTLE_POLL_SECONDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """What a machine needs to find its way to us."""

    api_url: str
    script: str
    """The POSIX shell script that fetches the agent and becomes it."""
    bundle: AgentBundle


@dataclass(frozen=True, slots=True)
class Rent:
    """Call the provider once; whatever is unclear afterwards is settled by looking."""

    records: Records
    operations: Operations
    clouds: GpuClouds
    boot: Boot

    def run(self, operation_id: str) -> dict[str, Any]:
        """`{"outcome": "rented"}`, or `{"outcome": "unknown", "wait_seconds": n}`: run it again.

        Raises:
            NoCapacityError and its kind, ProviderRefusedError: nothing stands at the provider.
            ProviderBusyError: nothing was made yet; run it again.
            OperationCancelledError: no longer wanted (before the call).
        """
        operation = self.operations.load(operation_id)
        machine = self._machine(operation)
        if machine.state == MachineState.INTENDED:
            self.operations.check_wanted(operation)
            return self._create(operation, machine)
        if machine.state == MachineState.RELEASED:
            raise OfferGoneError(f"machine {machine.id} was never made")
        if machine.provider_id is None:
            # Also when its agent has registered already: without the provider's id for it nobody
            # could end it.
            return self._settle(operation, machine)
        return {"outcome": "rented"}

    def _machine(self, operation: Operation) -> Machine:
        if operation.machine_id is None:
            raise NoCapacityError(f"operation {operation.id} has chosen no offer")
        return self.records.store.get(Machine, operation.machine_id)

    def _create(self, operation: Operation, machine: Machine) -> dict[str, Any]:
        pod = self.operations.pod_of(operation)
        token = f"pfb_{machine.id}_{self.records.randomness.secret()}"
        # The row is `requested` before the call: a crash in between is settled by looking.
        request = self._request(pod, machine, token)
        self._move(
            machine.id,
            MachineState.REQUESTED,
            boot_token_sha256=hashlib.sha256(token.encode()).hexdigest(),
            requested_at=self.records.now(),
        )
        try:
            provider_id = self.clouds.get(machine.offer.provider).create(request)
        except OutcomeUnknownError as error:
            self._move(machine.id, MachineState.UNKNOWN, note=error.detail)
            return {"outcome": "unknown", "wait_seconds": SETTLE_POLL_SECONDS}
        except ProviderBusyError:
            self._move(machine.id, MachineState.INTENDED, requested_at=None)
            raise
        except (NoCapacityError, ProviderRefusedError) as error:
            self._nothing_made(operation, machine, error)
            raise
        self._rented(operation, machine, provider_id)
        return {"outcome": "rented"}

    def _settle(self, operation: Operation, machine: Machine) -> dict[str, Any]:
        """The create call's outcome is unknown: adopt what carries our stamp, or wait for it."""
        cloud = self.clouds.get(machine.offer.provider)
        standing = [v for v in cloud.find(machine.stamp) if not _is_over(v)]
        if len(standing) == 1:
            self._rented(operation, machine, standing[0].provider_id)
            return {"outcome": "rented"}
        for extra in standing[1:]:
            # Never more than one machine for one intent; looked at again before we go on.
            cloud.give_up(extra.provider_id)
        if not standing and self._has_settled(cloud, machine):
            error = OfferGoneError(f"{machine.offer.provider} made no machine {machine.stamp}")
            self._nothing_made(operation, machine, error)
            raise error
        return {"outcome": "unknown", "wait_seconds": SETTLE_POLL_SECONDS}

    def _has_settled(self, cloud: GpuCloud, machine: Machine) -> bool:
        asked = machine.requested_at or machine.created_at
        age = (self.records.now() - asked).total_seconds()
        return age > cloud.traits.listing_settles_seconds

    def _request(self, pod: Pod, machine: Machine, token: str) -> LaunchRequest:
        keys = self.records.store.list_owned(SshKey, pod.account_id, limit=1).items
        return LaunchRequest(
            stamp=machine.stamp,
            offer=machine.offer,
            image=pod.spec.image,
            bootstrap=self.boot.script,
            environment={
                "PF_API": self.boot.api_url,
                "PF_TOKEN": token,
                "PF_MACHINE": machine.id,
                "PF_BUNDLE_URL": self.boot.bundle.url(),
                "PF_BUNDLE_SHA256": self.boot.bundle.sha256(),
            },
            ports=pod.spec.ports,
            ssh_public_key=keys[0].public_key if keys else None,
            disk_gib=pod.requirements.disk_gib,
        )

    def _rented(self, operation: Operation, machine: Machine, provider_id: str) -> None:
        registered = self.records.store.get(Machine, machine.id).registered_at is not None
        state = MachineState.BOOTING if registered else MachineState.PROVISIONING
        self._move(machine.id, state, provider_id=provider_id)
        self.operations.note(operation.id, "rented")

    def _nothing_made(self, operation: Operation, machine: Machine, error: CloudError) -> None:
        self._move(
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

    def _move(self, machine_id: str, state: MachineState, note: str = "", **fields: Any) -> None:
        def plan() -> Sequence[Change]:
            machine = self.records.store.get(Machine, machine_id)
            pod = self.records.store.get(Pod, machine.pod_id)
            operation = self.operations.load(machine.operation_id)
            return [
                Update(replace(machine, state=state, **fields)),
                self.records.pod_event(
                    pod,
                    f"machine.{state}",
                    operation,
                    machine_id=machine.id,
                    provider=machine.offer.provider,
                    **({"note": note} if note else {}),
                ),
            ]

        self.records.apply(plan)


def _is_over(view: MachineView) -> bool:
    return view.state in {ViewState.GONE, ViewState.FAILED}
