"""When a running pod counts as idle, and what follows from it.

    active ──idle, says the agent, says the control plane──> idle ──warn──> warned ──stop──> stopped
      ^                                                       │               │
      └────────── activity, doubt, silence, another policy ───┴───────────────┘

Two have to agree: the agent, which samples its box all the time, and the control plane, which looks
once a minute at the agent's signals and at what it knows itself. What one of them has not seen idle
without a break is not idle, and what is not known is not idle. A policy that cannot be evaluated is
told of, because its pod goes on costing money (case B2).
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from podferry.domain.activity import Activity, IdlePolicy, Signal, SignalState
from podferry.domain.entity import Entity
from podferry.domain.state_word import SILENCE

PERIOD = timedelta(minutes=1)
"""Between two evaluations."""
LONGEST_GAP = 3 * PERIOD
"""Between two evaluations of one idle time; after a longer one it is counted anew."""
WARM_UP = timedelta(minutes=6)
"""An agent that has just begun to measure knows nothing for five minutes."""
UNEVALUATED_AFTER = 2 * PERIOD + PERIOD / 2
"""Two whole periods, however late in its minute the second one may be."""
_KEPT = timedelta(days=7)


class Verdict(StrEnum):
    """Of one evaluation."""

    ACTIVE = "active"
    IDLE = "idle"
    UNKNOWN = "unknown"


class IdleState(StrEnum):
    """The word that the pod shows."""

    ACTIVE = "active"
    IDLE = "idle"
    WARNED = "warned"
    UNKNOWN = "unknown"


class Step(StrEnum):
    """What is due."""

    NOTHING = "nothing"
    WARN = "warn"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of the pod and its machine at one moment."""

    ready_at: datetime
    """Before it was handed over it cannot have been idle."""
    is_busy: bool
    """An operation or a user's command is at work on it."""
    heard_at: datetime
    activity: Activity | None
    """What the agent said then, if it said anything of this."""
    has_hidden_gpu: bool
    """A GPU was rented and the agent measures none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A verdict and what it rests on."""

    verdict: Verdict
    since: datetime | None = None
    """When the idle time began, as far as the agent knows."""
    doubt: str | None = None
    """Why there is no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleWatch(Entity):
    """What has been seen of one machine under one policy. `id` is the machine's.

    A row of its own, because it is written with every evaluation: see `Pulse`.
    """

    PREFIX: ClassVar[str] = "idle"

    policy: IdlePolicy
    begun_at: datetime
    looked_at: datetime
    """The newest evaluation, whatever came of it."""
    evaluated_at: datetime | None = None
    """The newest one with a verdict."""
    idle_since: datetime | None = None
    """From then on both have called it idle, without a break."""
    warned_at: datetime | None = None
    doubt: str | None = None
    """Why the newest evaluation came to no verdict."""
    is_told: bool = False
    """An event says that the policy is not evaluated."""

    @property
    def forget_at(self) -> datetime:
        return self.looked_at + _KEPT


def begun(watch: IdleWatch, policy: IdlePolicy, now: datetime) -> IdleWatch:
    """The watch with nothing seen yet: its policy is new, or its pod was asked to stop."""
    return IdleWatch(
        id=watch.id,
        account_id=watch.account_id,
        created_at=watch.created_at,
        revision=watch.revision,
        policy=policy,
        begun_at=now,
        looked_at=now,
    )


def evaluate(policy: IdlePolicy, evidence: Evidence, now: datetime) -> Evaluation:
    """The control plane's own verdict, which needs the agent's to be `IDLE`."""
    if evidence.is_busy:
        return Evaluation(verdict=Verdict.ACTIVE)
    if now - evidence.heard_at > SILENCE:
        return _doubt("the agent is silent")
    activity = evidence.activity
    if activity is None or activity.counted != policy.signals:
        return _doubt("the agent has not said what it sees of these signals")
    return _both(activity, evidence)


def _both(activity: Activity, evidence: Evidence) -> Evaluation:
    """The agent's signals and its verdict together."""
    counted = [r for r in activity.readings if r.signal in activity.counted]
    if any(r.state == SignalState.ACTIVE for r in counted):
        return Evaluation(verdict=Verdict.ACTIVE)
    quiet = {r.signal: r.for_seconds for r in counted if r.state == SignalState.QUIET}
    if evidence.has_hidden_gpu:
        quiet.pop(Signal.GPU, None)
    unknown = [signal for signal in activity.counted if signal not in quiet]
    if unknown:
        return _doubt(f"not known: {', '.join(unknown)}")
    if activity.idle_seconds is None:
        return Evaluation(verdict=Verdict.ACTIVE)
    # An agent may say any number; before its pod was handed over nothing counts.
    longest = (evidence.heard_at - evidence.ready_at).total_seconds()
    span = max(0.0, min(longest, activity.idle_seconds, *quiet.values()))
    since = evidence.heard_at - timedelta(seconds=span)
    return Evaluation(verdict=Verdict.IDLE, since=since)


def _doubt(why: str) -> Evaluation:
    return Evaluation(verdict=Verdict.UNKNOWN, doubt=why)


def advanced(watch: IdleWatch, seen: Evaluation, now: datetime) -> IdleWatch:
    """The watch after one more evaluation."""
    is_known = seen.verdict != Verdict.UNKNOWN
    since = _idle_since(watch, seen, now)
    return replace(
        watch,
        looked_at=now,
        evaluated_at=now if is_known else watch.evaluated_at,
        idle_since=since,
        warned_at=watch.warned_at if since == watch.idle_since else None,
        doubt=seen.doubt,
        is_told=watch.is_told and not is_known,
    )


def _idle_since(watch: IdleWatch, seen: Evaluation, now: datetime) -> datetime | None:
    if seen.verdict != Verdict.IDLE or seen.since is None:
        return None
    if watch.idle_since is None or now - watch.looked_at > LONGEST_GAP:
        return max(seen.since, now)
    # Later, if there was something between this look and the one before.
    return max(seen.since, watch.idle_since)


def due(watch: IdleWatch, now: datetime) -> Step:
    """What the policy asks for; the stop only some time after its warning."""
    if watch.idle_since is None:
        return Step.NOTHING
    if watch.warned_at is None:
        is_due = now >= watch.idle_since + watch.policy.warn_after
        return Step.WARN if is_due else Step.NOTHING
    stops = stops_at(watch)
    return Step.STOP if stops is not None and now >= stops else Step.NOTHING


def stops_at(watch: IdleWatch) -> datetime | None:
    """When the pod is stopped if nothing happens on it; `None` while it is not idle."""
    if watch.idle_since is None:
        return None
    earliest = watch.idle_since + watch.policy.stop_after
    if watch.warned_at is None:
        return earliest
    return max(earliest, watch.warned_at + watch.policy.gap)


def is_unevaluated(watch: IdleWatch, now: datetime) -> bool:
    """Whether for two periods nobody could say if the pod is idle (case B2)."""
    known_at = watch.evaluated_at or watch.begun_at + WARM_UP
    return now - known_at > UNEVALUATED_AFTER


def idle_state(watch: IdleWatch | None, now: datetime) -> IdleState:
    """The word."""
    if watch is None or watch.evaluated_at is None or watch.doubt is not None:
        return IdleState.UNKNOWN
    if now - watch.looked_at > LONGEST_GAP:
        return IdleState.UNKNOWN
    if watch.idle_since is None:
        return IdleState.ACTIVE
    return IdleState.IDLE if watch.warned_at is None else IdleState.WARNED
