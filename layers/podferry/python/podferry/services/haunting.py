"""Write down a machine at a provider that no row of ours stands for, so that its cost is known."""

from collections.abc import Sequence
from dataclasses import replace

from podferry.domain.entity import NO_ACCOUNT
from podferry.domain.ghost import Ghost, ghost_id
from podferry.ports.gpu_cloud import GpuCloud, MachineView
from podferry.ports.store import Change, Create, Update
from podferry.services.records import Records


def note_ghost(records: Records, cloud: GpuCloud, key_of: str | None, view: MachineView) -> None:
    """It stands; safe to repeat. The sweeper gives it up, and charges for it when it has gone."""
    records.apply(lambda: _noted(records, cloud, key_of, view))


def _noted(
    records: Records, cloud: GpuCloud, key_of: str | None, view: MachineView
) -> Sequence[Change]:
    known = records.store.find(Ghost, ghost_id(cloud.name, view.provider_id))
    if known is not None:
        seen = _with_bill(replace(known, missing_since=None), view)
        return [] if seen == known else [Update(seen)]
    ghost = Ghost(
        id=ghost_id(cloud.name, view.provider_id),
        account_id=NO_ACCOUNT,
        created_at=records.now(),
        provider=cloud.name,
        provider_id=view.provider_id,
        stamp=view.stamp or "",
        key_of=key_of,
        billing=cloud.traits.billing,
    )
    return [Create(_with_bill(ghost, view))]


def _with_bill(ghost: Ghost, view: MachineView) -> Ghost:
    """The ghost with what its provider says of its bill, as soon as it says so."""
    return replace(
        ghost,
        price_microusd_per_hour=ghost.price_microusd_per_hour or view.price_microusd_per_hour,
        billing_started_at=ghost.billing_started_at or view.billing_started_at,
    )
