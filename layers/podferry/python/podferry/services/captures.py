"""What an agent is told when it is to capture, at a stop or for a save."""

from typing import Any, Literal

from podferry.domain.account import Account
from podferry.domain.pod import Pod
from podferry.domain.snapshot import Snapshot, SnapshotKind
from podferry.services.records import Records

CAPTURE_SECONDS = 24 * 3600


def captured_kinds(pod: Pod) -> tuple[SnapshotKind, ...]:
    """What a stop captures. A reader's copy of its volume is nobody's work to keep."""
    return (SnapshotKind.ENVIRONMENT,) if pod.is_reader else tuple(SnapshotKind)


def capture_arguments(
    records: Records, pod: Pod, snapshot: Snapshot, mode: Literal["stop", "live"]
) -> dict[str, Any]:
    """`live` says that the pod's programs go on writing while they are captured."""
    parent = snapshot.parent_id
    return {
        "kind": snapshot.kind,
        "snapshot_id": snapshot.id,
        "attempt_id": snapshot.id,
        "parent": None if parent is None else parent_of(parent),
        "chunk_key": records.store.get(Account, pod.account_id).chunk_key,
        "rules": list(pod.capture_rules),
        "mode": mode,
    }


def parent_of(snapshot_id: str) -> dict[str, str]:
    """How a capture's arguments name what it builds on."""
    return {"snapshot_id": snapshot_id}


def capture_of_same_base(records: Records, pod: Pod) -> Snapshot | None:
    """What the first capture of a pod builds on: one of the account's that began as its image.

    What the two have in common, above all the image itself, is stored once. Only the heads of pods
    are looked at, because those are kept.
    """
    if pod.base is None:
        return None
    for other in records.all_owned(Pod, pod.account_id, newest_first=True):
        if other.environment_head is not None and pod.base.is_same_image(other.base):
            capture = records.store.find(Snapshot, other.environment_head)
            if capture is not None and capture.is_usable:
                return capture
    return None
