"""Holds a capture down to a share of one core, so that what the machine is rented for goes on."""

import os
import threading
import time

from podferry_agent.snapshot.errors import CancelledByCallerError

_NICENESS = 10
_CREDIT = 0.5  # seconds: time spent waiting for the network is not saved up for a burst
_LONGEST = 0.5


class Pace:
    """Sleeps where the readers call `breathe`; shared by all threads of a capture.

    The CPU time is that of the whole process: what else the agent does counts, too.
    """

    def __init__(self, share: float | None, cancelled: threading.Event) -> None:
        self.share = share
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._wall, self._cpu = time.monotonic(), time.process_time()
        self._debt = 0.0

    def breathe(self) -> None:
        """Sleep until the share is kept; raises `CancelledByCallerError` if that is asked for."""
        if self.share is None:
            return
        while (debt := self._owed(self.share)) > 0.001:
            if self._cancelled.wait(min(debt, _LONGEST)):
                raise CancelledByCallerError("the caller cancelled; nothing was published")

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
