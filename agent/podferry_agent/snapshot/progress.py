"""Counts what was done and tells the caller, at most five times a second; and stops when asked."""

import threading
import time
from collections.abc import Callable

from podferry_agent.snapshot.errors import CancelledByCallerError
from podferry_agent.snapshot.model import Progress

_INTERVAL = 0.2


class Meter:
    """Progress of one run; shared by its threads."""

    def __init__(self, report: Callable[[Progress], None], cancelled: threading.Event) -> None:
        self._report = report
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._phase = ""
        self._done = [0, 0]  # bytes, files
        self._total: list[int | None] = [None, None]
        self._next = 0.0
        self._committed = False

    def phase(self, name: str, total_bytes: int | None = None, files: int | None = None) -> None:
        """Begin a phase; reported at once."""
        self.check()
        with self._lock:
            self._phase = name
            self._done = [0, 0]
            self._total = [total_bytes, files]
        self._send()

    def totals(self, total_bytes: int, files: int) -> None:
        with self._lock:
            self._total = [total_bytes, files]

    def add(self, done_bytes: int, files: int = 0) -> None:
        """Count work done; raises `CancelledByCallerError` when the caller wants to stop."""
        self.check()
        with self._lock:
            self._done[0] += done_bytes
            self._done[1] += files
            due = time.monotonic() >= self._next
        if due:
            self._send()

    def commit(self) -> None:
        """The point of no return: stopping later would leave a half-changed tree."""
        self.check()
        self._committed = True

    def check(self) -> None:
        if self._cancelled.is_set() and not self._committed:
            raise CancelledByCallerError("the caller cancelled; nothing was published or swapped")

    def finish(self) -> None:
        """Report the last state of a phase."""
        self._send()

    def _send(self) -> None:
        with self._lock:
            self._next = time.monotonic() + _INTERVAL
            progress = Progress(
                self._phase, self._done[0], self._total[0], self._done[1], self._total[1]
            )
        self._report(progress)
