"""Counts what was done and tells the caller, at most five times a second; and stops when asked."""

import threading
import time
from collections import deque
from collections.abc import Callable

from podferry_agent.snapshot.errors import CancelledByCallerError
from podferry_agent.snapshot.model import Progress

_INTERVAL = 0.2
_WINDOW = 10.0  # seconds whose speed tells when the phase ends
_SHORTEST = 1.0  # an estimate from less would jump about


class Meter:
    """Progress of one run; shared by its threads. Within a phase no number ever goes down."""

    def __init__(self, report: Callable[[Progress], None], cancelled: threading.Event) -> None:
        self._report = report
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._reporting = threading.RLock()  # reports come in the order of what they count
        self._phase = ""
        self._done = [0, 0]  # bytes, files
        self._total: list[int | None] = [None, None]
        self._estimate = Estimate(0.0)
        self._next = 0.0
        self._committed = False

    def phase(self, name: str, total_bytes: int | None = None, files: int | None = None) -> None:
        """Begin a phase; reported at once."""
        self.check()
        with self._lock:
            self._phase = name
            self._done = [0, 0]
            self._total = [total_bytes, files]
            self._estimate = Estimate(time.monotonic())
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
        with self._reporting:
            with self._lock:
                now = time.monotonic()
                self._next = now + _INTERVAL
                done, total = self._done, self._total
                eta = self._estimate.seconds(now, (done[0], done[1]), (total[0], total[1]))
                progress = Progress(self._phase, done[0], total[0], done[1], total[1], eta)
            self._report(progress)


class Estimate:
    """When a phase will end, from what was done in the last ten seconds."""

    def __init__(self, began: float) -> None:
        self._seen: deque[tuple[float, int, int]] = deque([(began, 0, 0)])

    def seconds(
        self, now: float, done: tuple[int, int], total: tuple[int | None, int | None]
    ) -> int | None:
        """Whole seconds left; None while that cannot be said."""
        self._seen.append((now, *done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW:
            self._seen.popleft()
        began, *before = self._seen[0]
        elapsed = now - began
        left = [
            (whole - part) * elapsed / (part - earlier)
            for part, earlier, whole in zip(done, before, total, strict=True)
            if whole and part > earlier
        ]
        if elapsed < _SHORTEST or not left:
            return None
        # Bytes and files are both to be done: the slower of them decides.
        return max(0, round(max(left)))
