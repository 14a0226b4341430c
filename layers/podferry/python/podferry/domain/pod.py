"""The pod: an environment and a volume, and how to run them; it outlives machines.

    launching ─> restoring ─> running ─> stopping ─> stopped ─> deleted
      │  ^                                  │           │
      v  │                                  │           v
    waiting_for_capacity                    │       launching
                                            v
      a failed launch goes to stopped, a failed stop goes back to running

`desired` is what the user wants; `state` is what is. Every step of a workflow re-checks `desired`
in its own conditional write, so that a cancel always wins.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from podferry.domain.entity import Entity
from podferry.domain.errors import WrongStateError
from podferry.domain.offer import HostFailure, Requirements


class PodState(StrEnum):
    LAUNCHING = "launching"
    WAITING_FOR_CAPACITY = "waiting_for_capacity"
    RESTORING = "restoring"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DELETED = "deleted"


class Desired(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    DELETED = "deleted"


ALLOWED_MOVES: dict[PodState, frozenset[PodState]] = {
    PodState.LAUNCHING: frozenset(
        {PodState.WAITING_FOR_CAPACITY, PodState.RESTORING, PodState.STOPPED}
    ),
    PodState.WAITING_FOR_CAPACITY: frozenset({PodState.LAUNCHING, PodState.STOPPED}),
    PodState.RESTORING: frozenset({PodState.LAUNCHING, PodState.RUNNING, PodState.STOPPED}),
    PodState.RUNNING: frozenset({PodState.STOPPING}),
    PodState.STOPPING: frozenset({PodState.RUNNING, PodState.STOPPED}),
    PodState.STOPPED: frozenset({PodState.LAUNCHING, PodState.DELETED}),
    PodState.DELETED: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The last thing that went wrong, kept until the next success."""

    code: str
    detail: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """How the pod runs on a machine, whichever it is."""

    image: str
    startup_script: str | None = None
    on_stop_script: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    serving_port: int | None = None
    """The pod counts as serving when this port accepts connections."""
    start_timeout_seconds: int = 600
    stop_grace_seconds: int = 20
    capacity_wait_seconds: int = 0
    """How long a start may wait for an offer before it fails; 0 fails at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod(Entity):
    """See the module."""

    PREFIX: ClassVar[str] = "pod"

    name: str
    state: PodState
    desired: Desired
    spec: RunSpec
    requirements: Requirements
    environment_id: str
    volume_id: str
    environment_head: str | None = None
    """Snapshot of the environment that the next start restores; `None` before the first stop."""
    machine_id: str | None = None
    operation_id: str | None = None
    """The operation that is at work on the pod."""
    capture_rules: tuple[str, ...] = ()
    last_error: Failure | None = None
    failed_hosts: tuple[HostFailure, ...] = ()
    started_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        return self.state not in {PodState.STOPPED, PodState.DELETED}


def check_move(pod: Pod, target: PodState) -> None:
    """Raise `WrongStateError` unless the pod may go from its state to `target`."""
    if target not in ALLOWED_MOVES[pod.state]:
        raise WrongStateError(f"pod {pod.id} is {pod.state}; it cannot become {target} from there")
