"""Choose an offer and write down the intent to rent it, before any provider is called."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from podferry.domain.errors import BootFailedError, NoCapacityError
from podferry.domain.floor import MadeOn, made_on, with_floor
from podferry.domain.ids import STAMP_BITS, new_stamp
from podferry.domain.machine import FINAL_STATES, Machine, MachineState
from podferry.domain.metering import new_meter
from podferry.domain.offer import Candidates, NearMiss, Requirements
from podferry.domain.operation import Operation, WaitingFor
from podferry.domain.placement import choose
from podferry.domain.pod import Pod, PodState
from podferry.domain.snapshot import Snapshot
from podferry.domain.use_of_volume import next_epoch
from podferry.domain.volume import Lease, Volume
from podferry.ports.store import Change, Create, Update
from podferry.services.clouds import Clouds, ask_each
from podferry.services.experience import Experiences
from podferry.services.operations import Operations
from podferry.services.records import Records

RELIST_SECONDS = 30
SLOW_RELIST_SECONDS = 300
SLOW_AFTER = timedelta(hours=1)
"""A wait of days at 30 s a look would not fit into the history of one execution."""


@dataclass(frozen=True, slots=True)
class ListCandidates:
    """Offers of every provider with a key, filtered and ranked for a pod."""

    records: Records
    clouds: Clouds
    experiences: Experiences

    def run(self, pod: Pod, wanted: Requirements) -> tuple[Candidates, dict[str, str]]:
        """Candidates, and for each provider that did not answer why.

        What the pod's environment needs of a machine is added to `wanted`.
        """
        wanted = with_floor(wanted, origin_of(self.records, pod))
        open_to = self.clouds.open_to(pod.account_id)
        answers = ask_each(
            open_to, wanted, lambda name, own: self.clouds.with_key(name, own).list_offers(wanted)
        )
        silent = {name: error.detail for name, error in answers.failures.items()}
        unknown = set(wanted.providers) - open_to.keys()
        silent |= dict.fromkeys(unknown, "neither the account nor this deployment has a key for it")
        outlook = self.experiences.outlook()
        now = self.records.now()
        return choose(answers.offers, wanted, pod.failed_hosts, now, outlook), silent


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
            raise NoCapacityError(explain(found, silent))

        def plan() -> Sequence[Change]:
            fresh = self.operations.load(operation.id)
            if fresh.offers_listed_at is not None:
                return []
            waiting = WaitingFor(now, found.ruled_out, found.nearest, silent)
            listed = replace(
                fresh,
                offers=found.offers[:20],
                waiting_for=None if found.offers else waiting,
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
            own = self.candidates.clouds.own_key(offer.provider, pod.account_id)
            machine = Machine(
                id=machine_id,
                account_id=pod.account_id,
                created_at=self.records.now(),
                pod_id=pod.id,
                operation_id=fresh.id,
                offer=offer,
                stamp=stamp,
                epoch=next_epoch(volume, pod),
                state=MachineState.INTENDED,
                boot_token_sha256="",
                key_of=None if own is None else own.account_id,
            )
            # Written in the same transaction, so that the key cannot be taken out meanwhile.
            used = [] if own is None else [Update(replace(own, used_at=self.records.now()))]
            return [
                *used,
                Create(machine),
                Create(new_meter(machine, machine.created_at)),
                Update(
                    replace(
                        self.operations.with_milestone(fresh, "offer_chosen"),
                        offers=tuple(rest),
                        machine_id=machine.id,
                    )
                ),
                *_fenced(volume, pod, machine),
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
                    self.records.pod_event(
                        pod, "pod.waiting_for_capacity", fresh, **_would_fit(fresh.waiting_for)
                    ),
                ]
            return changes

        self.records.apply(plan)
        is_long = now - operation.created_at >= SLOW_AFTER
        return {"next": "wait", "wait_seconds": SLOW_RELIST_SECONDS if is_long else RELIST_SECONDS}


def _fenced(volume: Volume, pod: Pod, machine: Machine) -> list[Change]:
    """The pod on the machine, whose epoch makes all machines before it strangers."""
    launching = replace(pod, state=PodState.LAUNCHING, machine_id=machine.id)
    if pod.is_reader:
        return [Update(replace(launching, reader_epoch=machine.epoch))]
    lease = Lease(pod_id=pod.id, machine_id=machine.id)
    return [Update(launching), Update(replace(volume, epoch=machine.epoch, lease=lease))]


def origin_of(records: Records, pod: Pod) -> MadeOn | None:
    """The machine that the pod's environment was made on, or will be with the next capture."""
    machine = None if pod.machine_id is None else records.store.find(Machine, pod.machine_id)
    if machine is not None and machine.holds_data:
        return made_on(machine.facts)
    if pod.environment_head is None:
        return None
    head = records.store.find(Snapshot, pod.environment_head)
    return None if head is None else head.made_on


def explain(found: Candidates, silent: dict[str, str]) -> str:
    """Why there is nothing to rent, and what to loosen."""
    parts = [f"{count} offers ruled out by {name}" for name, count in found.ruled_out.items()]
    parts += [f"{name} did not answer: {why}" for name, why in sorted(silent.items())]
    parts += [_near(miss) for miss in found.nearest[:1]]
    return "no offer fits: " + ("; ".join(parts) or "no provider has anything to rent")


def _near(miss: NearMiss) -> str:
    offer = miss.offer
    what = f"{offer.gpu_count} x {offer.gpu_name or 'no GPU'} of {offer.provider}"
    return (
        f"nearest is {what} at {offer.price_microusd_per_hour} micro-USD an hour: "
        f"loosen {', '.join(miss.loosen)}"
    )


def _would_fit(waiting: WaitingFor | None) -> dict[str, Any]:
    if waiting is None:
        return {}
    nearest = [
        {
            "offer": miss.offer.id,
            "price_microusd_per_hour": miss.offer.price_microusd_per_hour,
            "loosen": list(miss.loosen),
        }
        for miss in waiting.nearest
    ]
    return {"ruled_out": waiting.ruled_out, "nearest": nearest}
