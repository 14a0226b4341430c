"""Brings the box to rest for an exact capture, and wakes it up again if that failed.

Order: the user's on-stop script, SIGTERM, grace, then SIGSTOP of what remains. It is SIGSTOP and
not SIGKILL because a capture may fail, and then the pod goes on where it stood.
"""

import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from podferry_agent.box import Box, shell_argv
from podferry_agent.fields import Fields
from podferry_agent.processes import (
    Process,
    ProcessScope,
    depths,
    find_process,
    is_alive,
    kill_group,
    send_signal,
)
from podferry_agent.ssh import SERVER_NAMES
from podferry_agent.state import StateStore, replace_file
from podferry_agent.wire import QuiesceArgs
from podferry_agent.workload import Workload

_LOG = logging.getLogger(__name__)
_RECORD = "paused"
_STOP_SECONDS = 5.0
# Ending these would cut the user's only way in if the capture fails and the pod goes on.
_NEVER_ENDED = SERVER_NAMES


@dataclass(frozen=True, slots=True)
class Quiesce:
    """Both halves: `run` and `resume`. What was paused is on disk before anything is paused."""

    box: Box
    store: StateStore
    scope: ProcessScope
    workload: Workload

    def run(self, args: QuiesceArgs, cancelled: Callable[[], bool]) -> dict[str, object]:
        hook_exit_code = self._run_hook(args)
        was_active = self.workload.is_active()
        terminated = self._terminate(args.grace_seconds, cancelled)
        paused = self._pause()
        if was_active:
            self.workload.mark_stopped()
        result: dict[str, object] = {
            "hook_exit_code": hook_exit_code,
            "terminated": terminated,
            "paused": paused,
        }
        _LOG.info("box_quiesced", extra=result)
        return result

    def resume(self) -> dict[str, object]:
        """Wakes what `run` paused and nothing else: processes that the user had stopped stay so."""
        resumed = 0
        for pid, started in self._remembered():
            if is_alive(pid, started) and send_signal(pid, signal.SIGCONT):
                resumed += 1
        self.store.remove(_RECORD)
        restarted = self.workload.resume()
        result: dict[str, object] = {"resumed": resumed, "workload_restarted": restarted}
        _LOG.info("box_resumed", extra=result)
        return result

    def end_everything(self, grace_seconds: float) -> None:
        """For the end of the agent: nothing of ours is left running."""
        self._terminate(grace_seconds, lambda: False)
        self.workload.end(grace_seconds=0.0)
        for process in self.scope.members():
            send_signal(process.pid, signal.SIGKILL)

    def _run_hook(self, args: QuiesceArgs) -> int | None:
        """The script's exit code; None without a script or when its time ran out."""
        if args.on_stop_script is None:
            return None
        script_file = self.store.directory / "on-stop.sh"
        replace_file(script_file, args.on_stop_script.encode(), mode=0o700)
        with subprocess.Popen(
            shell_argv(script_file),
            cwd=self.box.working_directory(),
            env=self.box.environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as hook:
            try:
                return hook.wait(args.hook_timeout_seconds)
            except subprocess.TimeoutExpired:
                _LOG.warning("on_stop_script_timed_out")
                kill_group(hook.pid)
                return None

    def _terminate(self, grace_seconds: float, cancelled: Callable[[], bool]) -> int:
        """How many processes ended within the grace time."""
        targets = [p for p in self.scope.members() if p.name not in _NEVER_ENDED]
        for process in targets:
            send_signal(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_seconds
        alive = _still_alive(targets)
        # A process the user had stopped cannot react, so it is not waited for.
        while _awaited(alive) and time.monotonic() < deadline and not cancelled():
            self.workload.status()  # reaps the startup script
            time.sleep(0.05)
            alive = _still_alive(alive)
        return len(targets) - len(alive)

    def _pause(self) -> int:
        before = self.scope.members()
        # Stopped by the user; what an earlier quiesce of ours stopped is not among them.
        asleep = {(p.pid, p.started) for p in before if p.is_stopped} - {*self._remembered()}
        # A kill in the middle of pausing must not lose anybody, so the list is written before
        # and once more after, with what was born in between.
        self._remember(p for p in before if (p.pid, p.started) not in asleep)
        _stop_all([p for p in before if _holds_terminal(p, before)], asleep)
        if self.scope.owns_namespace:
            self._stop_namespace()
        else:
            self._stop_members(asleep)
        after = [p for p in self.scope.members() if (p.pid, p.started) not in asleep]
        return self._remember(p for p in after if p.is_stopped)

    def _stop_namespace(self) -> None:
        """One call stops all but pid 1 and the caller; a loop never wins against a fork storm."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)
        _await_stopped(self.scope.members())

    def _stop_members(self, asleep: set[tuple[int, int]]) -> None:
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            running = [p for p in self.scope.members() if not p.is_stopped]
            if not running:
                return
            _stop_all(running, asleep)
        _LOG.warning("not_everything_could_be_paused")

    def _remembered(self) -> list[tuple[int, int]]:
        record = self.store.load(_RECORD) or {}
        entries = Fields(record, "stored pause").objects("processes")
        return [(entry.integer("pid"), entry.integer("started")) for entry in entries]

    def _remember(self, processes: Iterable[Process]) -> int:
        ordered = _leaf_first([*processes])
        entries = [{"pid": p.pid, "started": p.started} for p in ordered]
        self.store.save_if_possible(_RECORD, {"processes": entries})
        return len(entries)


def _holds_terminal(process: Process, everyone: Sequence[Process]) -> bool:
    """A shell at a terminal: stopped before its jobs, or it notices that they stopped."""
    return process.has_terminal and any(p.parent == process.pid for p in everyone)


def _leaf_first(processes: list[Process]) -> list[Process]:
    depth = depths(processes)
    return sorted(processes, key=lambda p: (p.has_terminal and p.pid == p.session, -depth[p.pid]))


def _stop_all(processes: Sequence[Process], asleep: set[tuple[int, int]]) -> None:
    """Parents first, each generation at rest before the next.

    A shell that is still awake when its job stops sees that, says so, and takes the terminal back.
    """
    depth = depths(processes)
    awake = [p for p in processes if (p.pid, p.started) not in asleep]
    for generation in sorted({depth[p.pid] for p in awake}):
        members = [p for p in awake if depth[p.pid] == generation]
        for process in members:
            send_signal(process.pid, signal.SIGSTOP)
        _await_stopped(members)


def _await_stopped(processes: Sequence[Process]) -> None:
    """SIGSTOP is posted, not done: a process in a system call stops a little later."""
    deadline = time.monotonic() + _STOP_SECONDS
    waiting = list(processes)
    while waiting and time.monotonic() < deadline:
        looked = (find_process(process.pid) for process in waiting)
        waiting = [p for p in looked if p is not None and not (p.is_stopped or p.is_dead)]
        if waiting:
            time.sleep(0.002)


def _still_alive(processes: Sequence[Process]) -> list[Process]:
    return [p for p in processes if is_alive(p.pid, p.started)]


def _awaited(processes: Sequence[Process]) -> bool:
    return any(not process.is_stopped for process in processes)
