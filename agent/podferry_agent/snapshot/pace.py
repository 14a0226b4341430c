"""Holds a capture down to a share of one core, so that what the machine is rented for goes on."""

import os
import threading
import time

from podferry_agent.snapshot.errors import CancelledByCallerError
from podferry_agent.snapshot.timelimit import Span, TimeLimit

_NICENESS = 10
_CREDIT = 0.5  # seconds: time spent waiting for the network is not saved up for a burst
_LONGEST = 0.5


class Pace:
    """Sleeps where the readers call `breathe`; shared by all threads of a capture.

    The CPU time is that of the whole process: what else the agent does counts, too.
    """

    def __init__(
        self, share: float | None, cancelled: threading.Event, span: Span | None = None
    ) -> None:
        self.share = share
        self.span = span or TimeLimit().begin()
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._wall, self._cpu = time.monotonic(), time.process_time()
        self._debt = 0.0

    def breathe(self) -> None:
        """Sleep until the share is kept.

        Raises `CancelledByCallerError` if that is asked for, and `OutOfTimeError`.
        """
        self.span.check_reading()
        if self.share is None:
            return
        while (debt := self._owed(self.share)) > 0.001:
            if self._cancelled.wait(min(debt, _LONGEST)):
                raise CancelledByCallerError("the caller cancelled; nothing was published")
            self.span.check_reading()

    def without_limit(self) -> "Pace":
        """For what has to be done after the time for reading is over."""
        return Pace(self.share, self._cancelled)

    def _owed(self, share: float) -> float:
        with self._lock:
            wall, cpu = time.monotonic(), time.process_time()
            self._debt += (cpu - self._cpu) / share - (wall - self._wall)
            self._debt = max(self._debt, -_CREDIT)
            self._wall, self._cpu = wall, cpu
            return self._debt


def be_nice() -> None:
    """Lower the priority of the calling thread, and of the threads that it will start."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
