"""Turns the engine's progress into what is reported: with a rate-based estimate of the end."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from podferry_agent.snapshot import Progress

# Before this much of the work is done an estimate would jump about.
_SHORTEST_SECONDS = 1.0


@dataclass(slots=True)
class ProgressReporter:
    """Callable with an engine `Progress`; hands the wire form on."""

    report: Callable[[dict[str, object]], None]
    _phase: str = ""
    _started_at: float = 0.0
    _started_bytes: int = 0
    _clock: Callable[[], float] = field(default=time.monotonic)

    def __call__(self, progress: Progress) -> None:
        if progress.phase != self._phase:
            self._phase = progress.phase
            self._started_at, self._started_bytes = self._clock(), progress.bytes_done
        self.report(
            {
                "phase": progress.phase,
                "bytes_done": progress.bytes_done,
                "bytes_total": progress.bytes_total,
                "files_done": progress.files_done,
                "files_total": progress.files_total,
                "eta_seconds": self._eta(progress),
            }
        )

    def _eta(self, progress: Progress) -> int | None:
        elapsed = self._clock() - self._started_at
        done = progress.bytes_done - self._started_bytes
        if progress.bytes_total is None or done <= 0 or elapsed < _SHORTEST_SECONDS:
            return None
        left = max(0, progress.bytes_total - progress.bytes_done)
        return round(left * elapsed / done)
