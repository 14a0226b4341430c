"""The pod: an environment and a volume, and how to run them; it outlives machines.

    launching ─> restoring ─> running ─> stopping ─> stopped ─> deleted
      │  ^                     │            │           │
      v  │                     v            │           v
    waiting_for_capacity   recovering       │       launching
                                            v
      a failed launch goes to stopped, a failed stop goes back to running; `recovering` goes on
      as a launch, and a pod that is not to be started again goes from running to stopped

`desired` is what the user wants; `state` is what is. Every step of a workflow re-checks `desired`
in its own conditional write, so that a cancel always wins.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from podferry.domain.activity import IdlePolicy
from podferry.domain.entity import Entity
from podferry.domain.errors import WrongStateError
from podferry.domain.image import BaseImage
from podferry.domain.offer import HostFailure, Offer, Requirements


class PodState(StrEnum):
    LAUNCHING = "launching"
    WAITING_FOR_CAPACITY = "waiting_for_capacity"
    RESTORING = "restoring"
    RUNNING = "running"
    RECOVERING = "recovering"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DELETED = "deleted"


class Desired(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    DELETED = "deleted"


class OnReclaim(StrEnum):
    """What becomes of a pod whose machine is lost without being asked for."""

    RESTART = "restart"
    STOP = "stop"


ALLOWED_MOVES: dict[PodState, frozenset[PodState]] = {
    PodState.LAUNCHING: frozenset(
        {PodState.WAITING_FOR_CAPACITY, PodState.RESTORING, PodState.STOPPED}
    ),
    PodState.WAITING_FOR_CAPACITY: frozenset({PodState.LAUNCHING, PodState.STOPPED}),
    PodState.RESTORING: frozenset({PodState.LAUNCHING, PodState.RUNNING, PodState.STOPPED}),
    PodState.RUNNING: frozenset({PodState.STOPPING, PodState.RECOVERING, PodState.STOPPED}),
    PodState.RECOVERING: frozenset(
        {PodState.LAUNCHING, PodState.WAITING_FOR_CAPACITY, PodState.STOPPED}
    ),
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
class RecoveredFrom:
    """What was left of the volume when the pod's machine was lost."""

    snapshot_id: str | None
    """`None` if it had never been saved."""
    saved_at: datetime | None
    lost_at: datetime
    """When the machine was last heard from."""
    torn: tuple[str, ...] = ()
    """Files that may be half written in that save."""
    is_partial: bool = False
    """The machine went before that save had everything; see `unreached`."""
    unreached: tuple[str, ...] = ()
    """Files that are older in it than the save is, or not in it; up to 100."""

    @property
    def age_seconds(self) -> float | None:
        """How much of the pod's work may be missing, up to the machine's last word.

        What it did after that, for a heartbeat's interval at most while it was well, nobody knows.
        """
        if self.saved_at is None:
            return None
        return max(0.0, (self.lost_at - self.saved_at).total_seconds())

    def as_result(self) -> dict[str, Any]:
        """As operations and events tell it."""
        return {
            "snapshot_id": self.snapshot_id,
            "age_seconds": self.age_seconds,
            "torn": list(self.torn),
            "is_partial": self.is_partial,
            "unreached": list(self.unreached),
        }


SAVE_INTERVAL_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What belongs to an environment besides its files: it travels with captures and versions."""

    startup_script: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    """Names only, as in `RunSpec`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """How the pod runs on a machine, whichever it is."""

    image: str
    startup_script: str | None = None
    on_stop_script: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    """More variables: by their names the names of the account's secrets that they get."""
    ports: tuple[int, ...] = ()
    serving_port: int | None = None
    """The pod counts as serving when this port accepts connections."""
    start_timeout_seconds: int = 600
    stop_grace_seconds: int = 20
    capacity_wait_seconds: int = 0
    """How long a start may wait for an offer before it fails; 0 fails at once."""

    @property
    def setup(self) -> Setup:
        """The part of it that belongs to the environment."""
        return Setup(
            startup_script=self.startup_script,
            environment=self.environment,
            secrets=self.secrets,
        )

    def with_setup(self, setup: Setup | None) -> "RunSpec":
        """With the environment's part replaced; `None`, of captures without one, leaves it."""
        if setup is None:
            return self
        return replace(
            self,
            startup_script=setup.startup_script,
            environment=setup.environment,
            secrets=setup.secrets,
        )


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
    is_reader: bool = False
    """It works on a copy of the volume's head, and what it writes there goes with its machine."""
    reader_epoch: int = 0
    """Counts its machines while it is a reader (`domain/use_of_volume.py`)."""
    base: BaseImage | None = None
    """What its machines begin as; `None` before the first launch."""
    environment_head: str | None = None
    """Snapshot of the environment that the next start restores; `None` before the first stop."""
    machine_id: str | None = None
    operation_id: str | None = None
    """The operation that is at work on the pod."""
    capture_rules: tuple[str, ...] = ()
    save_interval_seconds: int = SAVE_INTERVAL_SECONDS
    """Between the beginnings of two background saves while it runs."""
    last_error: Failure | None = None
    failed_hosts: tuple[HostFailure, ...] = ()
    on_reclaim: OnReclaim = OnReclaim.RESTART
    idle: IdlePolicy | None = None
    """`None`: it is never stopped for being idle."""
    recoveries: tuple[datetime, ...] = ()
    """When it was started again by itself, as far as that still counts."""
    recovered_from: RecoveredFrom | None = None
    """Set by the loss of its machine, until a stop captures its volume again."""
    started_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        return self.state not in {PodState.STOPPED, PodState.DELETED}


KEPT_HOST_FAILURES = 20


def avoid_host(pod: Pod, offer: Offer, now: datetime) -> Pod:
    """The pod, not to be put on the offer's host again for a while."""
    if offer.host is None:
        return pod
    failure = HostFailure(provider=offer.provider, host=offer.host, at=now)
    return replace(pod, failed_hosts=(*pod.failed_hosts, failure)[-KEPT_HOST_FAILURES:])


def check_move(pod: Pod, target: PodState) -> None:
    """Raise `WrongStateError` unless the pod may go from its state to `target`."""
    if target not in ALLOWED_MOVES[pod.state]:
        raise WrongStateError(f"pod {pod.id} is {pod.state}; it cannot become {target} from there")
