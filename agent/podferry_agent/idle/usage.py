"""One sample of everything that tells of use. What cannot be measured is `None`, never 0."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from podferry_agent import system
from podferry_agent.box import Box
from podferry_agent.gpus import GpuSampler
from podferry_agent.idle.sessions import count_ssh_sessions, count_used_terminals
from podferry_agent.processes import Process, ProcessScope, find_process, list_processes

# Headers of packets, and the answers that TCP gives to each, on top of what we count.
_OWN_OVERHEAD = 1.1
# The kernel notes input at a terminal only every so often.
_TERMINAL_GRAIN_SECONDS = 10.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

Sample = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class BoxProcesses:
    """The programs of the box, without the agent's own."""

    root: Path
    scope: ProcessScope

    def __call__(self) -> list[Process] | None:
        """`None` where /proc does not show even ourselves."""
        own = os.getpid()
        if find_process(own) is None:
            return None
        # A machine or container of its own has nothing in it but the box.
        members = list_processes() if self.root == Path("/") else self.scope.members()
        ours = {own, self.scope.supervisor_pid}
        return [p for p in members if p.pid not in ours and not _is_helper(p, own)]


def _is_helper(process: Process, own: int) -> bool:
    return process.parent == own and process.name == "nvidia-smi"


@dataclass(slots=True)
class CpuUse:
    """CPU time of all programs together, in percent of one core.

    What a program used goes over to its parent when it ends, so those too short to be seen count.
    What was seen of it before is taken off there, and only there: a long life that ends hides
    nothing of what others use.
    """

    _before: dict[tuple[int, int], Process] | None = None

    def __call__(self, processes: Sequence[Process], elapsed: float) -> float | None:
        seen = {(p.pid, p.started): p for p in processes}
        before, self._before = self._before, seen
        if before is None:
            return None
        ended: Counter[int] = Counter()
        for key, process in before.items():
            if key not in seen:
                ended[process.parent] += process.ticks + process.reaped_ticks
        used = sum(_used(p, before.get(key), ended[p.pid]) for key, p in seen.items())
        return _percent(used, elapsed)


def _used(process: Process, before: Process | None, ended: int) -> int:
    """Ticks since the look before; `ended`: what its children had that have ended since."""
    own, reaped = (0, 0) if before is None else (before.ticks, before.reaped_ticks)
    return process.ticks - own + max(0, process.reaped_ticks - reaped - ended)


@dataclass(slots=True)
class BusiestProcess:
    """CPU time of the program that used most, in percent of one core."""

    _ticks: dict[tuple[int, int], int] | None = None

    def __call__(self, processes: Sequence[Process], elapsed: float) -> float | None:
        ticks = {(p.pid, p.started): p.ticks for p in processes}
        before, self._ticks = self._ticks, ticks
        if before is None:
            return None
        used = (count - before[key] for key, count in ticks.items() if key in before)
        return _percent(max(used, default=0), elapsed)


def _percent(ticks: int, elapsed: float) -> float:
    return max(0.0, ticks / _TICKS_PER_SECOND / elapsed * 100)


@dataclass(slots=True)
class NetworkUse:
    """Bytes a second in both directions, less what the agent itself moves."""

    read_total: Callable[[], int | None]
    read_own: Callable[[], int]
    _before: tuple[int, int] | None = None

    def __call__(self, elapsed: float) -> float | None:
        total, own = self.read_total(), self.read_own()
        before, self._before = self._before, None if total is None else (total, own)
        if total is None or before is None:
            return None
        others = (total - before[0]) - _OWN_OVERHEAD * (own - before[1])
        return max(0.0, others / elapsed)


def all_network_bytes() -> int | None:
    """In and out since boot, without loopback."""
    received, sent = system.known(system.network_bytes) or (None, None)
    return None if received is None or sent is None else received + sent


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Percent of the busiest GPU."""

    box: Box
    gpus: GpuSampler

    def __call__(self) -> float | None:
        figures = self.gpus.figures()
        if figures is None:
            return None
        if not figures:
            return None if self._has_device() else 0.0
        used = [figure["utilization_percent"] for figure in figures]
        known = [float(value) for value in used if isinstance(value, int)]
        # A GPU that does not tell (one that is cut into parts) may be at work.
        return max(known) if len(known) == len(used) else None

    def _has_device(self) -> bool:
        """A GPU without the tool that measures it."""
        devices = self.box.root / "dev"
        return (devices / "kfd").exists() or any(devices.glob("nvidia[0-9]*"))


@dataclass(slots=True)
class Usage:
    """All signals at once, from one look at /proc."""

    processes: Callable[[], list[Process] | None]
    gpu: Callable[[], float | None]
    network: Callable[[float], float | None]
    own_sessions: Callable[[], int]
    """Of the agent's own SSH server."""
    _cpu: CpuUse = field(default_factory=CpuUse)
    _busiest: BusiestProcess = field(default_factory=BusiestProcess)

    def sample(self, elapsed: float) -> Sample:
        """Means over the time since the sample before it; the first one knows little."""
        seen = system.known(self._look)
        return {
            "gpu": self.gpu(),
            "cpu": None if seen is None else self._cpu(seen, elapsed),
            "network": self.network(elapsed),
            "ssh": None if seen is None else self._sessions(seen, elapsed),
            "processes": None if seen is None else self._busiest(seen, elapsed),
        }

    def _look(self) -> list[Process] | None:
        return self.processes()

    def _sessions(self, seen: Sequence[Process], elapsed: float) -> float:
        lately = elapsed + _TERMINAL_GRAIN_SECONDS
        return float(
            self.own_sessions() + count_ssh_sessions(seen) + count_used_terminals(seen, lately)
        )
