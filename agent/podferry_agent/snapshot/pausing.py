"""Stops the processes that write to a file for the moment in which it is read.

What is about to be stopped is on disk before it is stopped, so that an agent that dies in between
finds it at its next start and wakes it.
"""

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from podferry_agent.processes import (
    Process,
    depths,
    find_process,
    is_alive,
    list_processes,
    send_signal,
)
from podferry_agent.snapshot.statestore import write_atomically
from podferry_agent.ssh import SERVER_NAMES

LONGEST = 0.2  # seconds of one pause
BUDGET = 1.0  # seconds of all pauses of one capture
_STOPPING = 0.05  # how long a process may take to come to rest
_NOTE = "pausing.json"
_LOG = logging.getLogger(__name__)
# Above these is no shell that would notice, and the user's way in stays open.
_NEVER_PAUSED = SERVER_NAMES | {"systemd"}


class Pause:
    """One pause: it ends by `resume`, and after `LONGEST` at the latest by itself."""

    def __init__(self, processes: list[Process]) -> None:
        self._processes = processes  # in the order in which they are stopped
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._timer = threading.Timer(LONGEST, self.resume)
        self._timer.daemon = True
        self.seconds = 0.0
        self.deadline = self._began + LONGEST
        self.is_over = False

    def begin(self) -> bool:
        """Whether all of them have come to rest."""
        self._timer.start()
        generations = depths(list_processes())
        self._processes.sort(key=lambda p: generations.get(p.pid, 0))
        # A shell that is awake when its job stops sees that and takes the terminal back.
        return all(_stop(process, self._began + _STOPPING) for process in self._processes)

    def resume(self) -> None:
        """Wake everybody, the youngest first. Safe to call again."""
        with self._lock:
            if self.is_over:
                return
            self.is_over = True
            _wake((p.pid, p.started) for p in reversed(self._processes))
            self.seconds = time.monotonic() - self._began
        self._timer.cancel()


class Pauser:
    """The pauses of one capture, and what is left of their budget."""

    def __init__(self, directory: Path, *, allowed: bool) -> None:
        self._note = directory / _NOTE
        self._allowed = allowed
        self.count = 0
        self.seconds = 0.0

    @property
    def milliseconds(self) -> int:
        return round(self.seconds * 1000)

    @contextmanager
    def paused(self, pids: Iterable[int]) -> Iterator[Pause | None]:
        """All of `pids` at rest; None if that may not or cannot be."""
        targets = self._targets(set(pids))
        if not targets:
            yield None
            return
        entries = [[p.pid, p.started] for p in targets]
        write_atomically(self._note, json.dumps(entries).encode(), durable=False)
        pause = Pause(targets)
        try:
            yield pause if pause.begin() else None
        finally:
            pause.resume()
            self._note.unlink(missing_ok=True)
            self.count += 1
            self.seconds += pause.seconds

    def _targets(self, pids: set[int]) -> list[Process]:
        """Whom to stop; nobody if one of them must not be stopped, for then it is of no use."""
        if not self._allowed or self.seconds + LONGEST > BUDGET:
            return []
        everyone = {process.pid: process for process in list_processes()}
        spared = _spared(everyone)
        if pids & spared or not pids <= everyone.keys():
            return []
        targets = {pid: everyone[pid] for pid in pids if not everyone[pid].is_stopped}
        for process in list(targets.values()):
            for ancestor in _terminal_ancestors(process, everyone, spared):
                targets[ancestor.pid] = ancestor
        return list(targets.values())


def resume_all_left_paused(state_dir: bytes) -> int:
    """For the start of an agent: the pauses of all trees."""
    directories = Path(os.fsdecode(state_dir)).glob("snapshots/*")
    return sum(resume_left_paused(directory) for directory in directories)


def resume_left_paused(directory: Path) -> int:
    """Wake what an agent stopped that died before it could wake it; how many there were."""
    note = directory / _NOTE
    try:
        entries = json.loads(note.read_bytes())
    except FileNotFoundError:
        return 0
    woken = _wake((pid, started) for pid, started in reversed(entries))
    note.unlink(missing_ok=True)
    _LOG.warning("left_paused_processes_resumed", extra={"resumed": woken})
    return woken


def _wake(processes: Iterable[tuple[int, int]]) -> int:
    return sum(is_alive(*key) and send_signal(key[0], signal.SIGCONT) for key in processes)


def _spared(everyone: dict[int, Process]) -> set[int]:
    """Process 1, the agent with all above it, and threads of the kernel."""
    spared = {1}
    pid = os.getpid()
    while pid and pid not in spared:
        spared.add(pid)
        pid = everyone[pid].parent if pid in everyone else 0
    return spared | {pid for pid in everyone if not _has_program(pid)}


def _has_program(pid: int) -> bool:
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _terminal_ancestors(
    process: Process, everyone: dict[int, Process], spared: set[int]
) -> Iterator[Process]:
    """The shell of a process at a terminal, and the terminal multiplexer of the shell.

    Both react to a child that stops: one takes the terminal from it, the other wakes it up.
    """
    if not process.has_terminal:
        return
    parent = everyone.get(process.parent)
    while parent and parent.pid not in spared and parent.name not in _NEVER_PAUSED:
        if not parent.is_stopped:
            yield parent
        parent = everyone.get(parent.parent)


def _stop(process: Process, deadline: float) -> bool:
    """SIGSTOP is posted, not done: a thread within a system call stops a little later."""
    if not send_signal(process.pid, signal.SIGSTOP):
        return find_process(process.pid) is None
    while not _is_at_rest(process.pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0005)
    return True


def _is_at_rest(pid: int) -> bool:
    try:
        threads = Path(f"/proc/{pid}/task").iterdir()
        return all(_state(thread / "stat") in b"TtZX" for thread in threads)
    except (FileNotFoundError, ProcessLookupError):
        return find_process(pid) is None


def _state(path: Path) -> bytes:
    return path.read_bytes().rpartition(b")")[2].split()[0]
