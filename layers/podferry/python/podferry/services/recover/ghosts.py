"""Machines at the providers that no row of ours stands for: they are given up (case P16)."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from podferry.domain.errors import NotGoneYetError, PodferryError, ProviderRefusedError
from podferry.domain.ghost import OLD_ENOUGH, Ghost, ghost_id
from podferry.domain.ids import is_stamp_of
from podferry.domain.machine import Machine
from podferry.domain.metering import ghost_entries
from podferry.ports.gpu_cloud import GpuCloud, MachineView
from podferry.ports.store import Change, Delete, Update
from podferry.ports.surroundings import Signals
from podferry.services.billing.posting import posted
from podferry.services.clouds import Clouds
from podferry.services.giving_up import is_over
from podferry.services.haunting import note_ghost
from podferry.services.operations import Operations
from podferry.services.records import Records

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SweepGhosts:
    """Compares complete listings with the rows of machines.

    A machine's row is written before the provider is called, so what is listed without one is not
    being launched. It may be a twin of a machine, made by a create call that was repeated on its
    way, one whose row was lost with a restored table, or one that its provider said was gone.
    """

    records: Records
    operations: Operations
    clouds: Clouds
    signals: Signals
    deployment: str

    def run(self) -> int:
        """One complete listing of every provider with every key; how many ghosts stand."""
        for name, key_of in self.clouds.every():
            try:
                self._sweep(key_of, self.clouds.under(name, key_of))
            except PodferryError:
                # No listing proves nothing, neither that a machine is there nor that it is gone.
                self.signals.count("SweepFailed")
        return sum(1 for _ in self.records.store.list_active(Ghost))

    def _sweep(self, key_of: str | None, cloud: GpuCloud) -> None:
        listed = [v for v in cloud.list_machines() if self._is_ours(v) and not is_over(v, cloud)]
        # After the listing: a row that is written later belongs to a machine that is not in it.
        active = self.records.store.list_active(Machine)
        known: dict[str | None, str | None] = {m.stamp: m.provider_id for m in active}
        strangers = {v.provider_id: v for v in listed if not _is_known(v, known)}
        for view in strangers.values():
            self._seen(key_of, cloud, view)
        for ghost in self.records.store.list_active(Ghost):
            is_listed_here = (ghost.provider, ghost.key_of) == (cloud.name, key_of)
            if is_listed_here and ghost.provider_id not in strangers:
                is_taken = known.get(ghost.stamp) == ghost.provider_id
                self.records.apply(partial(self._missed, ghost.id, is_taken=is_taken))

    def _is_ours(self, view: MachineView) -> bool:
        return view.stamp is not None and is_stamp_of(self.deployment, view.stamp)

    def _seen(self, key_of: str | None, cloud: GpuCloud, view: MachineView) -> None:
        self.operations.schedules.enable()
        note_ghost(self.records, cloud, key_of, view)
        ghost = self.records.store.get(Ghost, ghost_id(cloud.name, view.provider_id))
        if not ghost.may_be_given_up(self.records.now()):
            return
        self.signals.count("GhostFound")
        evidence = {"provider": cloud.name, "provider_id": ghost.provider_id, "stamp": ghost.stamp}
        _LOGGER.warning("ghost given up", extra=evidence)
        try:
            cloud.give_up(ghost.provider_id)
        except (NotGoneYetError, ProviderRefusedError):
            # That one does not go, or not yet: it does not keep others from it.
            self.signals.count("SweepFailed")

    def _missed(self, listed_id: str, *, is_taken: bool) -> Sequence[Change]:
        """Gone when two complete listings, some time apart, do not show it.

        One that is an active machine after all (`is_taken`) is charged as such.
        """
        ghost = self.records.store.find(Ghost, listed_id)
        now = self.records.now()
        if ghost is None:
            return []
        if is_taken:
            return [Delete(ghost)]
        if ghost.missing_since is None:
            return [Update(replace(ghost, missing_since=now))]
        if now - ghost.missing_since < OLD_ENOUGH:
            return []
        entries = ghost_entries(ghost, ghost.missing_since, now)
        return [Delete(ghost), *posted(self.records, entries)]


def _is_known(view: MachineView, known: Mapping[str | None, str | None]) -> bool:
    """Whether it is the machine of an active row, or may be: `known` has provider ids by stamp."""
    if view.stamp not in known:
        return False
    return known[view.stamp] in {None, view.provider_id}
