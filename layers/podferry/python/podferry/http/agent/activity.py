"""What an agent says of the use of its pod."""

from typing import Annotated

from pydantic import Field

from podferry.domain.activity import Activity, Reading, Signal, SignalState
from podferry.http.agent.fields import AgentInput, Measure

_MOST = len(Signal)


class ReadingBody(AgentInput):
    """One signal; `level` is the mean of its last minutes, in its own unit."""

    signal: Signal
    state: SignalState
    for_seconds: Measure
    level: Measure | None = None


class ActivityBody(AgentInput):
    """The signals that it was told to count, its verdict over them, and what it rests on."""

    counted: Annotated[tuple[Signal, ...], Field(max_length=_MOST)]
    idle_seconds: Measure | None = None
    readings: Annotated[tuple[ReadingBody, ...], Field(max_length=_MOST)] = ()

    def to_activity(self) -> Activity:
        return Activity(
            counted=self.counted,
            idle_seconds=self.idle_seconds,
            readings=tuple(Reading(**dict(reading)) for reading in self.readings),
        )
