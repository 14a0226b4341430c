"""Operations: one launch, start, stop, move, save or recovery; progress and a result.

All but a save are carried by one workflow execution.

running ─> succeeded | failed | cancelled
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar

from podferry.domain.entity import Entity
from podferry.domain.errors import InternalError
from podferry.domain.offer import NearMiss, Offer, Requirements
from podferry.domain.proof import ProofMode


class OperationKind(StrEnum):
    LAUNCH = "launch"
    START = "start"
    STOP = "stop"
    MOVE = "move"
    SAVE = "save"
    RECOVER = "recover"
    """A start that nobody asked for: the pod's machine was lost."""
    VERIFY = "verify"
    SHARE = "share"
    """Scan a version before it is shared, or seal what leaves."""
    ACCEPT = "accept"
    """Copy what is shared into the account that accepts it."""


NO_POD = ""
"""`pod_id` of what came from another account: no pod of this one has to do with it."""

UNMOVING = frozenset({OperationKind.VERIFY, OperationKind.SHARE, OperationKind.ACCEPT})
"""Kinds that leave the pod as it is."""
STARTS = frozenset({OperationKind.LAUNCH, OperationKind.START, OperationKind.RECOVER})


class OperationState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Cause(StrEnum):
    """Who or what asked for it."""

    USER = "user"
    ADMIN = "admin"
    RECLAIM = "reclaim"
    MAINTENANCE = "maintenance"
    IDLE = "idle"


MAINTENANCE_WAIT = timedelta(hours=48)
"""How long a pod waits for capacity that had to leave its machine; its launch may take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """When a phase of the operation was reached."""

    phase: str
    at: datetime


@dataclass(frozen=True, slots=True)
class WaitingFor:
    """What a listing that had nothing for a pod showed instead."""

    listed_at: datetime
    ruled_out: dict[str, int]
    """Offers by the first requirement that each missed."""
    nearest: tuple[NearMiss, ...]
    silent: dict[str, str]
    """Providers that did not answer, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Entity):
    """See the module."""

    PREFIX: ClassVar[str] = "op"

    pod_id: str
    """`NO_POD` if it belongs to none."""
    kind: OperationKind
    cause: Cause
    state: OperationState = OperationState.RUNNING
    execution: int = 1
    """Number of the workflow execution that carries it; raised when one died."""
    is_cancel_asked: bool = False
    accept_loss: bool = False
    """The user takes the loss of what cannot be captured."""
    requirements: Requirements | None = None
    """Overrides the pod's for this start."""
    parent_id: str | None = None
    """The move that this stop or start is a half of."""
    waiter_token: str | None = None
    """Task token of the parent's workflow, answered when this operation ends."""
    halves: tuple[str, ...] = ()
    """Of a move: the ids of its stop and its start."""
    label: str | None = None
    """Of a save: what its user calls it. A stop takes it over from a save that it comes before."""
    share_id: str | None = None
    """Of `share` and `accept`."""
    offers: tuple[Offer, ...] = ()
    """Candidates still to try, best first."""
    offers_listed_at: datetime | None = None
    waiting_for: WaitingFor | None = None
    """While nothing fits: what would, and why the rest does not."""
    capacity_deadline_at: datetime | None = None
    """How long its start may wait for an offer. A move that has it leaves its machine even if
    there is nothing to go to."""
    machine_id: str | None = None
    """The machine that it rents or gives up."""
    environment_snapshot_id: str | None = None
    volume_snapshot_id: str | None = None
    """Snapshots to restore (start), captured (stop) or verified."""
    proof_mode: ProofMode | None = None
    """Of a verification."""
    is_verified: bool = False
    """Of a stop: the captures named above are proven; only they may become heads."""
    lost: tuple[str, ...] = ()
    """What was given up on purpose, in words, when a loss was accepted or proven."""
    commands: tuple[str, ...] = ()
    """Ids of the commands given to the machine so far; their rows carry the progress."""
    is_point_of_no_return: bool = False
    """A stop whose heads are moved can no longer be cancelled."""
    assessments: int = 0
    """How often this execution looked at a stop that went wrong; bounds its ways to the gate."""
    turned_back: dict[str, Any] | None = None
    """The error for which a stop turned back; from then on it only undoes what it did."""
    milestones: tuple[Milestone, ...] = ()
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    ended_at: datetime | None = None

    @property
    def owner(self) -> str:
        return self.pod_id

    @property
    def is_active(self) -> bool:
        return self.state == OperationState.RUNNING

    @property
    def snapshot_ids(self) -> tuple[str, ...]:
        """The snapshots that it restores, captures or verifies, the environment's first."""
        named = (self.environment_snapshot_id, self.volume_snapshot_id)
        return tuple(one for one in named if one is not None)


def reached(operation: Operation, phase: str, at: datetime) -> Operation:
    """The operation with the phase noted; the first time counts."""
    if any(m.phase == phase for m in operation.milestones):
        return operation
    mark = Milestone(phase=phase, at=at)
    return replace(operation, milestones=(*operation.milestones, mark))


def ended(
    operation: Operation,
    state: OperationState,
    at: datetime,
    *,
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> Operation:
    """The operation in its final state.

    Raises:
        InternalError: it has ended already.
    """
    if operation.state != OperationState.RUNNING:
        raise InternalError(f"operation {operation.id} ended twice")
    return replace(operation, state=state, result=result, error=error, ended_at=at)


def execution_name(operation: Operation) -> str:
    """The name of its workflow execution: how we find it again."""
    if operation.execution == 1:
        return operation.id
    return f"{operation.id}-{operation.execution}"
