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
        "parent": None if parent is None else {"snapshot_id": parent},
        "chunk_key": records.store.get(Account, pod.account_id).chunk_key,
        "rules": list(pod.capture_rules),
        "mode": mode,
    }
