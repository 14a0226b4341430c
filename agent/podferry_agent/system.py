"""Reads figures of the box from /proc, cgroups and the disk; unknown is None, never a guess."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

_CGROUP = Path("/sys/fs/cgroup")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def known(read: Callable[[], T]) -> T | None:
    """The figure, or None where /proc looks otherwise, as in sandboxes such as gVisor."""
    try:
        return read()
    except (ValueError, IndexError) as error:
        _LOG.debug("figure_unknown", extra={"figure": read.__name__, "reason": str(error)})
        return None


def read_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def memory_total() -> int | None:
    """The cgroup's limit where there is one below the machine's memory."""
    machine = _meminfo("MemTotal")
    limit = _cgroup_number("memory.max")
    return min((value for value in (machine, limit) if value is not None), default=None)


def memory_used() -> int | None:
    used = _cgroup_number("memory.current")
    if used is not None and _cgroup_number("memory.max") is not None:
        return used
    total, available = _meminfo("MemTotal"), _meminfo("MemAvailable")
    return None if total is None or available is None else total - available


def disk(root: Path) -> tuple[int | None, int | None]:
    """Total and free bytes of the file system the root lies on."""
    try:
        figures = os.statvfs(root)
    except OSError:
        return None, None
    return figures.f_blocks * figures.f_frsize, figures.f_bavail * figures.f_frsize


def network_bytes() -> tuple[int | None, int | None]:
    """Received and sent since boot, over all interfaces but loopback."""
    text = read_text(Path("/proc/net/dev"))
    if text is None:
        return None, None
    received = sent = 0
    for line in text.splitlines()[2:]:
        name, _, figures = line.partition(":")
        if name.strip() != "lo":
            fields = figures.split()
            received, sent = received + int(fields[0]), sent + int(fields[8])
    return received, sent


def cpu_seconds() -> float | None:
    """CPU time used so far by the box (its cgroup), or else by the whole machine."""
    usage = _cgroup_usage_microseconds()
    if usage is not None:
        return usage / 1e6
    first_line = (read_text(Path("/proc/stat")) or "").partition("\n")[0].split()
    if len(first_line) < 9:
        return None
    ticks = [int(field) for field in first_line[1:9]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / _TICKS_PER_SECOND


def cpu_count() -> int:
    return len(os.sched_getaffinity(0))


def kernel_boot_id() -> str:
    return (read_text(Path("/proc/sys/kernel/random/boot_id")) or "unknown").strip()


def _meminfo(name: str) -> int | None:
    for line in (read_text(Path("/proc/meminfo")) or "").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None


def _cgroup_number(name: str) -> int | None:
    text = (read_text(_CGROUP / name) or "").strip()
    return int(text) if text.isdigit() else None


def _cgroup_usage_microseconds() -> int | None:
    # The root cgroup of a machine has no memory.max; its cpu.stat may lag behind, so /proc is used.
    if _cgroup_number("memory.current") is None:
        return None
    for line in (read_text(_CGROUP / "cpu.stat") or "").splitlines():
        if line.startswith("usage_usec "):
            return int(line.split()[1])
    return None
