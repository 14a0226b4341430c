"""Looks at processes through /proc: who they are, whose children, and which ones belong to us."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc; `started` (clock ticks since boot) tells a pid from its reuse."""

    pid: int
    parent: int
    session: int
    terminal: int
    """Device number of its terminal; 0 without one."""
    state: str
    started: int
    name: str
    ticks: int
    """CPU time that it used."""
    reaped_ticks: int
    """CPU time of its children that have ended."""

    @property
    def has_terminal(self) -> bool:
        return self.terminal != 0

    @property
    def is_stopped(self) -> bool:
        return self.state in "Tt"

    @property
    def is_dead(self) -> bool:
        return self.state in "ZX"


def find_process(pid: int) -> Process | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name may hold spaces and brackets, so everything is counted from its last bracket.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        terminal=int(fields[4]),
        state=fields[0],
        started=int(fields[19]),
        name=head.partition("(")[2],
        ticks=int(fields[11]) + int(fields[12]),
        reaped_ticks=int(fields[13]) + int(fields[14]),
    )


def list_processes() -> list[Process]:
    """Everything alive in our pid namespace; empty where /proc is not mounted."""
    try:
        pids = [int(path.name) for path in PROC.iterdir() if path.name.isdigit()]
    except FileNotFoundError:
        return []
    found = (find_process(pid) for pid in pids)
    return [process for process in found if process is not None and not process.is_dead]


def is_alive(pid: int, started: int) -> bool:
    """Whether this very process still runs, not another one that got its number."""
    process = find_process(pid)
    return process is not None and process.started == started and not process.is_dead


def has_mark(pid: int, mark: bytes) -> bool:
    """Whether the process was started with this NAME=value in its environment."""
    try:
        content = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        # Ended meanwhile, or another user's: in both cases not ours.
        return False
    return mark in content.split(b"\0")


def descendants(processes: Iterable[Process], ancestor: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    queue = [ancestor]
    while queue:
        for pid in children.get(queue.pop(), []):
            if pid not in found:
                found.add(pid)
                queue.append(pid)
    return found


def depths(processes: Iterable[Process]) -> dict[int, int]:
    """How far each process is from the root of its tree."""
    parents = {process.pid: process.parent for process in processes}
    result: dict[int, int] = {}
    for pid in parents:
        depth, current, seen = 0, pid, {pid}
        while (current := parents.get(current, 0)) in parents and current not in seen:
            seen.add(current)
            depth += 1
        result[pid] = depth
    return result


def send_signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class ProcessScope:
    """Which processes belong to this box, so that quiescing never touches anybody else's.

    Where our supervisor is pid 1, the pid namespace is the box. Anywhere else (a directory box, a
    chroot) only what we started counts: our descendants and whatever carries our mark.
    """

    machine_id: str
    supervisor_pid: int

    @property
    def owns_namespace(self) -> bool:
        return self.supervisor_pid == 1

    def members(self) -> list[Process]:
        everyone = list_processes()
        own = {self.supervisor_pid, os.getpid()}
        others = [process for process in everyone if process.pid not in own]
        if self.owns_namespace:
            return others
        mark = f"PF_MACHINE={self.machine_id}".encode()
        ours = descendants(everyone, self.supervisor_pid) | descendants(everyone, os.getpid())
        return [p for p in others if p.pid in ours or has_mark(p.pid, mark)]
