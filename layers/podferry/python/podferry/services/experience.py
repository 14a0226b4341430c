"""Keeps what machines taught us. One measurement more or less is no harm, so none is waited for."""

from collections.abc import Callable
from dataclasses import dataclass

from podferry.domain.entity import NO_ACCOUNT
from podferry.domain.errors import ConflictError
from podferry.domain.experience import (
    Experience,
    Outlook,
    boot_deadline_seconds,
    experience_id,
)
from podferry.domain.machine import FINAL_STATES, Machine
from podferry.domain.offer import Offer
from podferry.ports.gpu_cloud import GpuCloud
from podferry.ports.store import Create, Update
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class Experiences:
    """Learn from machines, and tell what was learnt."""

    records: Records

    def started(self, machine: Machine) -> None:
        """A machine became ready: how long did that take?"""
        self._learn(machine.offer, lambda seen: seen.with_start(machine))

    def ended(self, machine: Machine) -> None:
        """A machine is proven gone: for how long did it serve?"""
        if machine.ready_at is not None:
            self._learn(machine.offer, lambda seen: seen.with_service(machine))

    def lost(self, machine: Machine) -> None:
        """A machine was lost unasked. If it is not proven gone yet, `ended` comes later."""
        self._learn(machine.offer, lambda seen: seen.with_loss())
        if machine.state in FINAL_STATES:
            self.ended(machine)

    def outlook(self, planned_seconds: int = 3600) -> Outlook:
        """What to rank offers by."""
        known = {seen.id: seen for seen in self.records.store.list_active(Experience)}
        return Outlook(planned_seconds, known)

    def boot_deadline(self, cloud: GpuCloud, machine: Machine) -> int:
        """How long this machine may take to report, in seconds."""
        seen = self.records.store.find(Experience, experience_id(machine.offer))
        return boot_deadline_seconds(cloud.traits.boots[machine.offer.kind].deadline_seconds, seen)

    def _learn(self, offer: Offer, change: Callable[[Experience], Experience]) -> None:
        store = self.records.store
        seen = store.find(Experience, experience_id(offer))
        try:
            if seen is None:
                store.commit(Create(change(self._first(offer))))
            else:
                store.commit(Update(change(seen)))
        except ConflictError:
            # Somebody learns of the same provider at this moment. All accounts share the row, so
            # a pod must not wait for it.
            return

    def _first(self, offer: Offer) -> Experience:
        return Experience(
            id=experience_id(offer),
            account_id=NO_ACCOUNT,
            created_at=self.records.now(),
            provider=offer.provider,
            kind=offer.kind,
            market=offer.market,
        )
