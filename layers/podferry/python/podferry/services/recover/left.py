"""What is left of a pod's volume when its machine is gone before it was captured."""

from datetime import datetime

from podferry.domain.machine import Machine, Pulse
from podferry.domain.pod import RecoveredFrom
from podferry.domain.snapshot import Snapshot
from podferry.domain.volume import Volume
from podferry.services.records import Records


def heard_at(records: Records, machine: Machine) -> datetime:
    """When the machine was last heard from; its start counts as a word."""
    pulse = records.store.find(Pulse, machine.id)
    ready_at = machine.ready_at or machine.created_at
    return ready_at if pulse is None else max(pulse.heard_at, ready_at)


def state_left(records: Records, volume: Volume, lost_at: datetime) -> RecoveredFrom:
    """The newest save: what the pod comes back with."""
    save = None if volume.head is None else records.store.find(Snapshot, volume.head)
    return RecoveredFrom(
        snapshot_id=volume.head,
        saved_at=volume.saved_at,
        lost_at=lost_at,
        torn=() if save is None else tuple(save.summary.get("torn", ())),
    )
