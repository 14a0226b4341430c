"""Choose an offer and write down the intent to rent it, before any provider is called."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from podferry.domain.errors import BootFailedError, CloudError, NoCapacityError
from podferry.domain.ids import STAMP_BITS, new_stamp
from podferry.domain.machine import FINAL_STATES, Machine, MachineState
from podferry.domain.offer import Candidates, Offer, Requirements
from podferry.domain.operation import Operation
from podferry.domain.placement import choose
from podferry.domain.pod import Pod, PodState
from podferry.domain.volume import Lease, Volume
from podferry.ports.gpu_cloud import GpuClouds
from podferry.ports.store import Change, Create, Update
from podferry.services.operations import Operations
from podferry.services.records import Records

RELIST_SECONDS = 30


@dataclass(frozen=True, slots=True)
class ListCandidates:
    """Offers of every provider with a key, filtered and ranked for a pod."""

    records: Records
    clouds: GpuClouds

    def run(self, pod: Pod, wanted: Requirements) -> tuple[Candidates, dict[str, str]]:
        """Candidates, and for each provider that did not answer why.

        Raises:
            NoCapacityError: no provider has a key or answered at all.
        """
        offers: list[Offer] = []
        silent: dict[str, str] = {}
        for name in self.clouds.names():
            if wanted.providers and name not in wanted.providers:
                continue
            try:
                offers += self.clouds.get(name).list_offers(wanted)
            except CloudError as error:
                silent[name] = error.detail
        unknown = set(wanted.providers) - set(self.clouds.names())
        silent |= dict.fromkeys(unknown, "this deployment has no key for it")
        return choose(offers, wanted, pod.failed_hosts, self.records.now()), silent


@dataclass(frozen=True, slots=True)
class ChooseOffer:
    """The next candidate becomes an intended machine with an epoch of its own."""

    records: Records
    operations: Operations
    candidates: ListCandidates
    deployment: str

    def run(self, operation_id: str) -> dict[str, Any]:
        """`{"next": "rent"}`, or `{"next": "wait", "wait_seconds": n}` while nothing fits.

        Raises:
            NoCapacityError: nothing fits and the pod may not wait (any longer).
            OperationCancelledError: the start is no longer wanted.
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        if self._has_machine(operation):
            return {"next": "rent"}
        pod = self.operations.pod_of(operation)
        before = operation.machine_id
        if operation.offers_listed_at is None:
            operation = self._list(operation, pod)
        if operation.offers:
            self._intend(operation, before)
            return {"next": "rent"}
        return self._wait(operation)

    def _has_machine(self, operation: Operation) -> bool:
        if operation.machine_id is None:
            return False
        machine = self.records.store.get(Machine, operation.machine_id)
        if machine.state in FINAL_STATES:
            return False
        if machine.clearance is not None:
            # An execution that died while it gave this machine back was started again.
            raise BootFailedError(f"machine {machine.id} is being given back")
        return True

    def _list(self, operation: Operation, pod: Pod) -> Operation:
        wanted = operation.requirements or pod.requirements
        found, silent = self.candidates.run(pod, wanted)
        now = self.records.now()
        deadline = operation.capacity_deadline_at or (
            operation.created_at + timedelta(seconds=pod.spec.capacity_wait_seconds)
        )
        if not found.offers and now >= deadline:
            raise NoCapacityError(_explain(found, silent))

        def plan() -> Sequence[Change]:
            fresh = self.operations.load(operation.id)
            if fresh.offers_listed_at is not None:
                return []
            listed = replace(
                fresh,
                offers=found.offers[:20],
                offers_listed_at=now,
                capacity_deadline_at=deadline,
            )
            return [Update(listed)]

        self.records.apply(plan)
        return self.operations.load(operation.id)

    def _intend(self, operation: Operation, before: str | None) -> None:
        """Write the machine down; `before` is the operation's machine that was looked at."""
        offer, *rest = operation.offers
        machine_id = self.records.new_id(Machine)
        stamp = new_stamp(self.deployment, self.records.randomness.bits(STAMP_BITS))

        def plan() -> Sequence[Change]:
            fresh = self.operations.load(operation.id)
            self.operations.check_wanted(fresh)
            if fresh.machine_id != before:
                return []  # Another run of this step has chosen.
            pod = self.operations.pod_of(fresh)
            volume = self.records.store.get(Volume, pod.volume_id)
            machine = Machine(
                id=machine_id,
                account_id=pod.account_id,
                created_at=self.records.now(),
                pod_id=pod.id,
                operation_id=fresh.id,
                offer=offer,
                stamp=stamp,
                epoch=volume.epoch + 1,
                state=MachineState.INTENDED,
                boot_token_sha256="",
            )
            return [
                Create(machine),
                Update(
                    replace(
                        self.operations.with_milestone(fresh, "offer_chosen"),
                        offers=tuple(rest),
                        machine_id=machine.id,
                    )
                ),
                Update(replace(pod, state=PodState.LAUNCHING, machine_id=machine.id)),
                Update(
                    replace(
                        volume,
                        epoch=machine.epoch,
                        lease=Lease(pod_id=pod.id, machine_id=machine.id),
                    )
                ),
                self.records.pod_event(
                    pod,
                    "machine.intended",
                    fresh,
                    machine_id=machine.id,
                    offer=offer.id,
                    price_microusd_per_hour=offer.price_microusd_per_hour,
                ),
            ]

        self.records.apply(plan)

    def _wait(self, operation: Operation) -> dict[str, Any]:
        now = self.records.now()
        deadline = operation.capacity_deadline_at
        if deadline is None or now >= deadline:
            raise NoCapacityError(
                "every offer that fits was tried and could not be rented; "
                "loosen the requirements or try again later"
            )

        def plan() -> Sequence[Change]:
            fresh = self.operations.load(operation.id)
            self.operations.check_wanted(fresh)
            pod = self.operations.pod_of(fresh)
            changes: list[Change] = [Update(replace(fresh, offers_listed_at=None))]
            if pod.state in {PodState.LAUNCHING, PodState.RECOVERING}:
                changes += [
                    Update(replace(pod, state=PodState.WAITING_FOR_CAPACITY)),
                    self.records.pod_event(pod, "pod.waiting_for_capacity", fresh),
                ]
            return changes

        self.records.apply(plan)
        return {"next": "wait", "wait_seconds": RELIST_SECONDS}


def _explain(found: Candidates, silent: dict[str, str]) -> str:
    parts = [f"{count} offers ruled out by {name}" for name, count in found.ruled_out.items()]
    parts += [f"{name} did not answer: {why}" for name, why in sorted(silent.items())]
    return "no offer fits: " + ("; ".join(parts) or "no provider has anything to rent")
