"""Jittered waiting between tries, which ends at once when the agent does."""

import random
import threading
from dataclasses import dataclass

from podferry_agent.errors import StoppingError


@dataclass(slots=True)
class Backoff:
    """Doubling delays from `first` to `longest` seconds; half of each is random.

    Many machines lose the control plane at the same moment; without the random half they would
    all come back at the same moment, too.
    """

    first: float
    longest: float
    failures: int = 0

    def next_delay(self, at_least: float | None = None) -> float:
        delay = min(self.longest, self.first * 2.0 ** min(self.failures, 16))
        self.failures += 1
        jittered = delay * random.uniform(0.5, 1.0)  # noqa: S311 - spreading load, no secret
        return max(jittered, at_least or 0.0)

    def reset(self) -> None:
        self.failures = 0

    def wait(self, stop: threading.Event, at_least: float | None = None) -> None:
        """Raises: StoppingError when `stop` is set before or during the wait."""
        if stop.wait(self.next_delay(at_least)):
            raise StoppingError("stopped while waiting for another try")
