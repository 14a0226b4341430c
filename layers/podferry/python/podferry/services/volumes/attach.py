"""Give a stopped pod another volume, or another use of the one that it has."""

from dataclasses import replace

from podferry.domain.errors import WrongStateError
from podferry.domain.pod import Pod, PodState
from podferry.domain.use_of_volume import Attachment
from podferry.services.operations import require_idle
from podferry.services.records import Records
from podferry.services.volumes.rules import usable


def attached(records: Records, pod: Pod, wanted: Attachment) -> Pod:
    """The pod with that volume; the one that it had stays as it is. Who writes it is a start's.

    Raises:
        NotFoundError: no such volume.
        WrongStateError: the pod is not stopped, or the volume is in the trash.
    """
    require_idle(pod)
    if pod.state != PodState.STOPPED:
        raise WrongStateError(
            f"pod {pod.id} is {pod.state}; stop it first, then give it another volume"
        )
    volume = usable(records, pod.account_id, wanted.volume_id)
    is_same = volume.id == pod.volume_id and not wanted.is_reader
    return replace(
        pod,
        volume_id=volume.id,
        is_reader=wanted.is_reader,
        recovered_from=pod.recovered_from if is_same else None,
    )
