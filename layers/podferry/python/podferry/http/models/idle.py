"""When unused pods are stopped, as users say it, and what has been seen of it."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from podferry.domain.activity import (
    LONGEST_MINUTES,
    SHORTEST_GAP_MINUTES,
    SHORTEST_WARN_MINUTES,
    Activity,
    IdlePolicy,
    Reading,
    Signal,
    SignalState,
)
from podferry.domain.idle import IdleState, IdleWatch, idle_state, stops_at
from podferry.http.models.fields import Input, Integer, Output, unique


def _ordered(signals: tuple[Signal, ...]) -> tuple[Signal, ...]:
    return tuple(signal for signal in Signal if signal in signals)


WarnAfter = Annotated[
    Integer,
    Field(
        ge=SHORTEST_WARN_MINUTES,
        le=LONGEST_MINUTES,
        description="How long the pod has to be idle until an event warns of its stop.",
    ),
]
StopAfter = Annotated[
    Integer,
    Field(
        ge=SHORTEST_WARN_MINUTES + SHORTEST_GAP_MINUTES,
        le=LONGEST_MINUTES,
        description="How long it has to be idle until it is stopped; counted from the same moment,"
        f" and at least {SHORTEST_GAP_MINUTES} minutes more than `warn_after_minutes`.",
    ),
]
CountedSignals = Annotated[
    tuple[Signal, ...],
    Field(
        min_length=1,
        max_length=len(Signal),
        description="What keeps the pod from being idle; left out, all of them.",
    ),
    AfterValidator(unique),
    AfterValidator(_ordered),
]


class IdleBody(Input):
    """Stop the pod when nobody has used it for a while."""

    warn_after_minutes: WarnAfter
    stop_after_minutes: StopAfter
    signals: CountedSignals = tuple(Signal)

    @model_validator(mode="after")
    def _leave_time_to_react(self) -> Self:
        if self.stop_after_minutes - self.warn_after_minutes < SHORTEST_GAP_MINUTES:
            raise ValueError(
                f"stop_after_minutes must be at least {SHORTEST_GAP_MINUTES} more than "
                "warn_after_minutes, so that the warning can be acted upon"
            )
        return self

    def to_policy(self) -> IdlePolicy:
        return IdlePolicy(**dict(self))


class IdleView(Output):
    """When the pod is stopped for being idle."""

    warn_after_minutes: int
    stop_after_minutes: int
    signals: tuple[Signal, ...]

    @classmethod
    def of(cls, policy: IdlePolicy | None) -> "IdleView | None":
        if policy is None:
            return None
        return cls(**{name: getattr(policy, name) for name in cls.model_fields})


class SignalView(Output):
    """One signal, as the agent last told it."""

    signal: Signal
    state: SignalState
    for_seconds: float = Field(description="How long it has been in this state.")
    level: float | None = Field(
        description="Mean of its last minutes: gpu in percent of the busiest GPU, cpu and processes"
        " in percent of one core, network in bytes a second, ssh in sessions."
    )

    @classmethod
    def of(cls, reading: Reading) -> "SignalView":
        return cls(**{name: getattr(reading, name) for name in cls.model_fields})


class IdleStatusView(Output):
    """What has been seen of a running pod under its policy."""

    state: IdleState = Field(description="`unknown` never leads to a stop.")
    reason: str | None = Field(description="Why it is unknown.")
    idle_since: datetime | None
    warned_at: datetime | None
    stops_at: datetime | None = Field(description="If nothing happens on it until then.")
    evaluated_at: datetime | None = Field(description="When it was last known.")
    signals: tuple[SignalView, ...]

    @classmethod
    def of(
        cls, watch: IdleWatch | None, activity: Activity | None, now: datetime
    ) -> "IdleStatusView":
        signals = () if activity is None else activity.readings
        return cls(
            state=idle_state(watch, now),
            reason=_NOT_YET if watch is None else watch.doubt,
            idle_since=None if watch is None else watch.idle_since,
            warned_at=None if watch is None else watch.warned_at,
            stops_at=None if watch is None else stops_at(watch),
            evaluated_at=None if watch is None else watch.evaluated_at,
            signals=tuple(SignalView.of(reading) for reading in signals),
        )


_NOT_YET = "not evaluated yet"
