"""The last minutes of one figure, weighted by time."""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

State = Literal["active", "quiet", "unknown"]

# What may be missing of a window before nothing can be said of it.
_NEEDED_SHARE = 0.8


@dataclass(slots=True)
class Window:
    """Spans of time, each with its value or `None` where it is not known.

    One sample that is odd weighs only as much as its span is long (case A8).
    """

    seconds: float
    threshold: float
    _spans: deque[tuple[float, float, float | None]] = field(default_factory=deque)

    def add(self, start: float, end: float, value: float | None) -> None:
        """Spans come in their order and do not overlap."""
        self._spans.append((start, end, value))
        oldest = end - self.seconds
        while self._spans[0][1] <= oldest:
            self._spans.popleft()
        first = self._spans[0]
        self._spans[0] = (max(first[0], oldest), first[1], first[2])

    @property
    def level(self) -> float | None:
        """The mean of what is known; `None` if too little is."""
        known = sum(end - start for start, end, value in self._spans if value is not None)
        return self._sum() / known if known >= _NEEDED_SHARE * self.seconds else None

    @property
    def state(self) -> State:
        # What was measured may be enough, whatever the rest was.
        if self._sum() >= self.threshold * self.seconds:
            return "active"
        level = self.level
        if level is None:
            return "unknown"
        return "active" if level >= self.threshold else "quiet"

    def _sum(self) -> float:
        return sum((end - start) * value for start, end, value in self._spans if value is not None)
