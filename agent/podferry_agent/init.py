"""The first process: reaps orphans, passes signals on, and keeps the agent running.

It is pid 1 wherever the provider lets us be, because only pid 1 (or its child) hears that the
machine will be taken away. The agent is a child of it, so that a crash of the agent does not end
the box, and so that reaping orphans cannot steal the exit codes the agent waits for.
"""

import contextlib
import ctypes
import logging
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

_LOG = logging.getLogger(__name__)
_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SHORTEST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 30.0
_STEADY_SECONDS = 60.0

# Exit codes with which the agent means to end; with any other it is started again.
EXIT_DONE = 0
EXIT_REFUSED = 64
EXIT_EPOCH_STALE = 65
_FINAL = frozenset({EXIT_DONE, EXIT_REFUSED, EXIT_EPOCH_STALE})


class Supervisor:
    """Runs `agent` in a child process until it ends on purpose; returns its exit code."""

    def __init__(self, agent: Callable[[], int]) -> None:
        self._agent = agent
        self._agent_pid = 0
        self._is_ending = False

    def run(self) -> int:
        # Orphans come to us even where we are not pid 1.
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        for number in _FORWARDED:
            signal.signal(number, self._forward)
        pause = _SHORTEST_PAUSE_SECONDS
        while True:
            started_at = time.monotonic()
            code = self._run_agent()
            if code in _FINAL or self._is_ending:
                return code
            if time.monotonic() - started_at > _STEADY_SECONDS:
                pause = _SHORTEST_PAUSE_SECONDS
            _LOG.error("agent_ended_unexpectedly", extra={"exit_code": code, "pause": pause})
            self._reap_for(pause)
            pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)

    def _run_agent(self) -> int:
        # Signals are held back until the child has its own handlers and we know its pid.
        signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
        supervisor = os.getpid()
        self._agent_pid = os.fork()
        if self._agent_pid == 0:
            self._become_agent(supervisor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == self._agent_pid:
                self._agent_pid = 0
                return os.waitstatus_to_exitcode(status)

    def _become_agent(self, supervisor: int) -> None:
        """Never returns."""
        code = 70
        try:
            # Two agents on one machine must never be: if we are killed, it goes with us.
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:
                return  # killed before we could ask for that
            for number in _FORWARDED:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
            code = self._agent()
        except BaseException:  # noqa: BLE001 - the outermost edge of this process
            _LOG.exception("agent_crashed")
        finally:
            os._exit(code)

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        if number in {signal.SIGTERM, signal.SIGINT}:
            self._is_ending = True
        if self._agent_pid:
            os.kill(self._agent_pid, number)

    def _reap_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._is_ending:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            time.sleep(0.05)


def _prctl(option: int, argument: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")
