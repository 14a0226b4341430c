"""What is left of a pod's volume when its machine is gone before it was captured."""

from datetime import datetime

from podferry.domain.machine import Machine, Pulse, last_heard
from podferry.domain.pod import RecoveredFrom
from podferry.domain.snapshot import Snapshot
from podferry.domain.volume import Volume
from podferry.services.records import Records


def heard_at(records: Records, machine: Machine) -> datetime:
    """See `last_heard`."""
    return last_heard(machine, records.store.find(Pulse, machine.id))


def state_left(records: Records, volume: Volume, lost_at: datetime) -> RecoveredFrom:
    """The newest save: what the pod comes back with.

    Of a partial save only what is older than `saved_at` is sure to be there.
    """
    save = None if volume.head is None else records.store.find(Snapshot, volume.head)
    return RecoveredFrom(
        snapshot_id=volume.head,
        saved_at=volume.saved_at,
        lost_at=lost_at,
        torn=() if save is None else tuple(save.summary.get("torn", ())),
        is_partial=save is not None and save.is_partial,
        unreached=() if save is None else tuple(save.summary.get("unreached", ())),
    )
