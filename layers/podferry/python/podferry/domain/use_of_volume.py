"""How pods use a volume: one writes it, any number read a copy of it.

The writer has the lease, and its machine the volume's epoch (promise 5). A reader's machine
restores the head of the moment of its start, into a tree of its own that nobody ever saves. So it
needs no lease, and has epochs of its own pod; the volume's row only notes that it is read.
"""

from dataclasses import dataclass, replace

from podferry.domain.errors import VolumeBusyError, WrongStateError
from podferry.domain.machine import Machine
from podferry.domain.pod import Pod
from podferry.domain.volume import Lease, Volume

MOST_READERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """Which volume a pod is to have, and how."""

    volume_id: str
    is_reader: bool = False


def taken(volume: Volume, pod: Pod) -> Volume:
    """The volume when this pod starts with it.

    Raises:
        VolumeBusyError: another pod writes it and this one wants to; names the other. Or too many
            pods read it.
        WrongStateError: there is nothing to read.
    """
    if not pod.is_reader:
        require_free(volume, but_for=pod)
        return replace(volume, lease=Lease(pod_id=pod.id, machine_id=None))
    if volume.head is None:
        raise WrongStateError(
            f"volume {volume.id} was never saved, so pod {pod.id} cannot read it; start a pod that "
            "writes it first"
        )
    others = tuple(one for one in volume.readers if one != pod.id)
    if len(others) >= MOST_READERS:
        raise VolumeBusyError(
            f"{MOST_READERS} pods read volume {volume.id}; stop one of them first"
        )
    return replace(volume, readers=(*others, pod.id))


def left(volume: Volume, pod: Pod) -> Volume:
    """The volume when the pod has no machine any more; what other pods do stays."""
    lease = volume.lease
    return replace(
        volume,
        lease=None if lease is not None and lease.pod_id == pod.id else lease,
        readers=tuple(one for one in volume.readers if one != pod.id),
    )


def require_free(volume: Volume, *, but_for: Pod | None = None) -> None:
    """Raise `VolumeBusyError`, which names the pod, if a machine may write the volume."""
    holder = None if volume.lease is None else volume.lease.pod_id
    if holder is not None and (but_for is None or holder != but_for.id):
        raise VolumeBusyError(f"volume {volume.id} is in use by pod {holder}; stop that pod first")


def require_unread(volume: Volume) -> None:
    """Raise `VolumeBusyError`, which names a pod, if pods read the volume."""
    if volume.readers:
        raise VolumeBusyError(
            f"volume {volume.id} is read by pod {volume.readers[0]}; stop that pod first"
        )


def next_epoch(volume: Volume, pod: Pod) -> int:
    """The epoch of the pod's next machine."""
    return 1 + (pod.reader_epoch if pod.is_reader else volume.epoch)


def is_machine_of(volume: Volume, pod: Pod, machine: Machine) -> bool:
    """Whether no machine was rented after this one for the pod and its use of the volume."""
    return machine.epoch == (pod.reader_epoch if pod.is_reader else volume.epoch)
