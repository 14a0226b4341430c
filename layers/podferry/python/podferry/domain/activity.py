"""What tells whether anybody uses a pod, and what its user wants to happen when nobody does.

Sources of what a signal means and of its threshold: `agent/podferry_agent/idle/`.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

SHORTEST_WARN_MINUTES = 5
SHORTEST_GAP_MINUTES = 5
"""Between the warning and the stop: enough to read the one and to prevent the other (case R9)."""
LONGEST_MINUTES = 7 * 24 * 60


class Signal(StrEnum):
    """Something that a pod in use does."""

    GPU = "gpu"
    CPU = "cpu"
    NETWORK = "network"
    SSH = "ssh"
    PROCESSES = "processes"


class SignalState(StrEnum):
    """What the agent makes of a signal over its last minutes."""

    ACTIVE = "active"
    QUIET = "quiet"
    UNKNOWN = "unknown"
    """Not measured, or not for long enough. It never counts as quiet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePolicy:
    """When an unused pod is stopped. A pod without one never is."""

    warn_after_minutes: int
    stop_after_minutes: int
    """Counted from the same moment as the warning."""
    signals: tuple[Signal, ...] = tuple(Signal)
    """Those that count, each once, in the order of `Signal`."""

    @property
    def warn_after(self) -> timedelta:
        return timedelta(minutes=self.warn_after_minutes)

    @property
    def stop_after(self) -> timedelta:
        return timedelta(minutes=self.stop_after_minutes)

    @property
    def gap(self) -> timedelta:
        """Between the warning, however late it comes, and the stop."""
        shortest = timedelta(minutes=SHORTEST_GAP_MINUTES)
        return max(shortest, self.stop_after - self.warn_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One signal, as the agent sees it."""

    signal: Signal
    state: SignalState
    for_seconds: float
    """How long it has been in that state, by the agent's monotonic clock."""
    level: float | None = None
    """Mean of its last minutes, in the signal's own unit; `None` if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What the agent says. Spans instead of moments: the clock of a machine may be wrong."""

    counted: tuple[Signal, ...]
    """The signals that its verdict is about: those of the policy that it has been told."""
    idle_seconds: float | None
    """For how long it has called its box idle without a break; `None` if it does not."""
    readings: tuple[Reading, ...]
