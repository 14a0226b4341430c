"""Give a machine up and follow it until the provider proves it gone (promises 1 and 3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import Any

from podferry.domain.billing import cost_so_far
from podferry.domain.errors import CloudError, InternalError, ProviderBusyError
from podferry.domain.machine import FINAL_STATES, Clearance, Machine, MachineState
from podferry.domain.pod import Pod
from podferry.ports.gpu_cloud import GpuCloud, MachineView, ViewState
from podferry.ports.store import Change, Update
from podferry.ports.surroundings import Signals
from podferry.services.boot_keys import spent
from podferry.services.clouds import Clouds
from podferry.services.experience import Experiences
from podferry.services.haunting import note_ghost
from podferry.services.records import Records

FIRST_WAIT_SECONDS = 1
LONGEST_WAIT_SECONDS = 60
LONGEST_AWAY_SECONDS = 600
"""A machine costs money: by then its provider is asked again, whatever it asked for."""
STUCK_AFTER = timedelta(minutes=10)
BETWEEN_LISTINGS = timedelta(seconds=1)


class Proof(StrEnum):
    """How sure it is that a machine is gone."""

    NONE = "none"
    NO_ANSWER = "no_answer"
    """The provider cannot say, or does not."""
    HALTED = "halted"
    """The provider has it and says that it does not run."""
    RECLAIMED = "reclaimed"
    """The same, and that somebody else has its place."""
    MISSING = "missing"
    """One listing does not show it; one more, later, would prove it."""
    GONE = "gone"


_PROVES_NOTHING = frozenset({Proof.NO_ANSWER, Proof.HALTED, Proof.RECLAIMED})
_WORDS = {
    ViewState.UNKNOWN: Proof.NO_ANSWER,
    # A machine that is asked for its agent's silence had one: it is not being fetched any more.
    ViewState.PULLING: Proof.HALTED,
    ViewState.STOPPED: Proof.HALTED,
    ViewState.FAILED: Proof.HALTED,
    ViewState.LOST: Proof.HALTED,
    ViewState.RECLAIMED: Proof.RECLAIMED,
}
"""Of a machine that is not gone; any other state says that it is on its way, or runs."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Ask, look, and ask again; errors and time-outs of a provider prove nothing."""

    records: Records
    clouds: Clouds
    signals: Signals
    experiences: Experiences

    def ask(self, machine_id: str) -> dict[str, Any]:
        """Ask the provider to end the machine; safe to repeat.

        Raises:
            InternalError: the machine holds data and nothing clears it to be given up.
        """
        machine = self.records.store.get(Machine, machine_id)
        if machine.state == MachineState.RELEASED:
            return {}
        if machine.clearance is None:
            raise InternalError(f"machine {machine.id} may not be given up: nothing clears it")
        if machine.state == MachineState.TERMINATING and self._away_seconds(machine) > 0:
            return {}
        # Also one that counts as lost: should its provider have erred, it would go on costing.
        refusal = self._ask_provider(self._located(machine))
        self._terminating(machine, refusal)
        return {}

    def look(self, machine_id: str) -> dict[str, Any]:
        """`{"is_gone": true}`, or false with the seconds to wait before asking again."""
        machine = self.records.store.get(Machine, machine_id)
        if machine.state in FINAL_STATES:
            return {"is_gone": True}
        word, away = self._asked(machine)
        if word == Proof.GONE:
            self._released(machine)
            self.experiences.ended(self.records.store.get(Machine, machine_id))
            return {"is_gone": True}
        asked = machine.give_up_at or machine.created_at
        if self.records.now() - asked > STUCK_AFTER:
            self.signals.count("MachineStuckTerminating")
        wait = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** max(0, _tries(machine) - 2))
        return {"is_gone": False, "wait_seconds": max(wait, away, self._away_seconds(machine))}

    def _away_seconds(self, machine: Machine) -> int:
        """For how long its provider does not want to be asked again to end it."""
        if machine.busy_until is None:
            return 0
        return ceil((machine.busy_until - self.records.now()).total_seconds())

    def _located(self, machine: Machine) -> Machine:
        """The machine with its provider's id, looked up by stamp if the create was cut off."""
        if machine.provider_id is not None:
            return machine
        standing = self._standing(machine)
        if not standing:
            return machine

        found = standing[0].provider_id

        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Machine, machine.id)
            return [Update(replace(fresh, provider_id=fresh.provider_id or found))]

        self.records.apply(plan)
        return self.records.store.get(Machine, machine.id)

    def _standing(self, machine: Machine) -> list[MachineView]:
        """What the listing shows under its stamp; nothing also if there was no answer."""
        if machine.requested_at is None:
            return []
        try:
            cloud = self.clouds.of(machine)
            return [view for view in cloud.find(machine.stamp) if not is_over(view, cloud)]
        except CloudError:
            self.signals.count("GiveUpLookFailed")
            return []

    def _ask_provider(self, machine: Machine) -> CloudError | None:
        """`None` if the provider took it, else why not; it is asked again after a look.

        A create call that was repeated on its way makes two machines with one stamp: all go.
        """
        if machine.provider_id is None:
            return None
        try:
            cloud = self.clouds.of(machine)
            cloud.give_up(machine.provider_id)
            for twin in self._standing(machine):
                if twin.provider_id != machine.provider_id:
                    note_ghost(self.records, cloud, machine.key_of, twin)
                    cloud.give_up(twin.provider_id)
        except CloudError as error:
            self.signals.count("GiveUpRefused")
            return error
        return None

    def proof(self, machine: Machine) -> Proof:
        """What the provider's word, or two listings some time apart, prove of the machine."""
        word = self.word(machine)
        return Proof.NONE if word in _PROVES_NOTHING else word

    def word(self, machine: Machine) -> Proof:
        """Like `proof`, and of what proves nothing how it looks."""
        word, _ = self._asked(machine)
        return word

    def _asked(self, machine: Machine) -> tuple[Proof, int]:
        """Its word, and for how many seconds the provider wants to be left alone."""
        if machine.provider_id is None and machine.requested_at is None:
            return Proof.GONE, 0  # No create call was made for it.
        try:
            return self._look_at(machine, self.clouds.of(machine)), 0
        except CloudError as error:
            self.signals.count("GiveUpLookFailed")
            return Proof.NO_ANSWER, _asks_for_seconds(error)

    def _look_at(self, machine: Machine, cloud: GpuCloud) -> Proof:
        if machine.provider_id is None:
            return self._count_listings(machine, cloud)
        view = cloud.get(machine.provider_id)
        self._note_bill(machine, view)
        if not is_over(view, cloud):
            self._note_missing(machine, None)
            return _WORDS.get(view.state, Proof.NONE)
        if view.stamp is None:
            # Not the provider's word that it ended, only that it finds no such machine.
            return self._count_listings(machine, cloud)
        listed = [v for v in cloud.find(machine.stamp) if v.provider_id != machine.provider_id]
        return Proof.GONE if all(is_over(v, cloud) for v in listed) else Proof.NONE

    def _note_bill(self, machine: Machine, view: MachineView) -> None:
        """A machine that was not looked at while it booted may have begun to cost all the same."""
        if machine.billing_started_at is not None or view.billing_started_at is None:
            return

        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Machine, machine.id)
            if fresh.billing_started_at is not None:
                return []
            price = view.price_microusd_per_hour or fresh.price_microusd_per_hour
            known = replace(fresh, billing_started_at=view.billing_started_at)
            return [Update(replace(known, price_microusd_per_hour=price))]

        self.records.apply(plan)

    def _count_listings(self, machine: Machine, cloud: GpuCloud) -> Proof:
        """Not found counts only when two complete listings, some time apart, agree."""
        if any(not is_over(view, cloud) for view in cloud.find(machine.stamp)):
            self._note_missing(machine, None)
            return Proof.NONE
        now = self.records.now()
        if now <= machine.unlisted_until(cloud.traits.listing_settles_seconds):
            return Proof.MISSING
        if machine.missing_since is None:
            self._note_missing(machine, now)
            return Proof.MISSING
        has_waited = now - machine.missing_since >= BETWEEN_LISTINGS
        return Proof.GONE if has_waited else Proof.MISSING

    def _note_missing(self, machine: Machine, since: datetime | None) -> None:
        if machine.missing_since == since:
            return

        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Machine, machine.id)
            return [Update(replace(fresh, missing_since=since))]

        self.records.apply(plan)

    def _terminating(self, machine: Machine, refusal: CloudError | None) -> None:
        note = None if refusal is None else refusal.detail
        away = timedelta(seconds=_asks_for_seconds(refusal))

        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Machine, machine.id)
            if fresh.state in FINAL_STATES:
                return []
            asked = replace(
                fresh,
                state=MachineState.TERMINATING,
                give_up_at=fresh.give_up_at or self.records.now(),
                give_up_attempts=fresh.give_up_attempts + 1,
                busy_until=self.records.now() + away if away else None,
            )
            is_first = fresh.state != MachineState.TERMINATING
            changes: list[Change] = [Update(asked)]
            if is_first or note is not None:
                pod = self.records.store.get(Pod, fresh.pod_id)
                kind = "machine.terminating" if note is None else "machine.give_up_refused"
                evidence = {"machine_id": fresh.id, "clearance": fresh.clearance, "note": note}
                changes.append(self.records.pod_event(pod, kind, None, **evidence))
            return changes

        self.records.apply(plan)

    def _released(self, machine: Machine) -> None:
        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Machine, machine.id)
            if fresh.state in FINAL_STATES:
                return []
            pod = self.records.store.get(Pod, fresh.pod_id)
            gone = replace(fresh, state=MachineState.RELEASED, released_at=self.records.now())
            return [
                Update(gone),
                *spent(self.records, fresh),
                self.records.pod_event(
                    pod,
                    "machine.released",
                    None,
                    machine_id=fresh.id,
                    cost_microusd=machine_cost(gone),
                ),
            ]

        self.records.apply(plan)


def clear(machine: Machine, clearance: Clearance) -> Machine:
    """The machine with the ground on which it may be given up.

    Raises:
        InternalError: the ground does not fit a machine that holds data.
    """
    if clearance == Clearance.NEVER_READY and machine.holds_data:
        raise InternalError(f"machine {machine.id} was ready: it may hold data")
    return replace(machine, clearance=machine.clearance or clearance)


def machine_cost(machine: Machine) -> int:
    """What the machine cost from the start of its billing to its proven end, micro-USD."""
    return 0 if machine.released_at is None else cost_so_far(machine, machine.released_at)


def is_over(view: MachineView, cloud: GpuCloud) -> bool:
    """Whether the provider says that the machine has ended and costs nothing any more."""
    if view.state == ViewState.FAILED:
        return cloud.traits.failed_is_final
    return view.state == ViewState.GONE


def _asks_for_seconds(error: CloudError | None) -> int:
    """How long the provider wants to be left alone, as far as that can be granted."""
    if not isinstance(error, ProviderBusyError):
        return 0
    return min(ceil(error.retry_after_seconds), LONGEST_AWAY_SECONDS)


def _tries(machine: Machine) -> int:
    return min(machine.give_up_attempts, 10)
