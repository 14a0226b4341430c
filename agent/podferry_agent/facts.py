"""What the machine is: sent once, when the agent registers."""

import os
import platform
import re
import shlex
import stat
from pathlib import Path

from podferry_agent import system
from podferry_agent.box import Box
from podferry_agent.gpus import cuda_version, gpu_facts

_MOUNT_POINTS = 500
_GLIBC_VERSION = re.compile(rb"GNU C Library [^\n]{0,80}?version (\d+\.\d+)")
_OCTAL = re.compile(r"\\([0-7]{3})")


def collect_facts(box: Box, state_dir: Path, supervisor_pid: int) -> dict[str, object]:
    total, free = system.disk(box.root)
    distro = _os_release(box.root)
    return {
        "kernel": platform.release(),
        "arch": platform.machine(),
        "distro_id": distro.get("ID"),
        "distro_version": distro.get("VERSION_ID"),
        "libc": _libc(box.root),
        "hostname": platform.node(),
        "cpu_count": system.cpu_count(),
        "memory_bytes": system.known(system.memory_total),
        "disk_total_bytes": total,
        "disk_free_bytes": free,
        "gpus": gpu_facts(box),
        "cuda_version": cuda_version(box),
        "is_pid1": supervisor_pid == 1,
        "is_root": os.geteuid() == 0,
        "can_chown": _can_chown(state_dir),
        "can_mknod": _can_mknod(state_dir),
        "mount_points": _mount_points(),
    }


def _os_release(root: Path) -> dict[str, str]:
    text = system.read_text(root / "etc/os-release") or ""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: "".join(shlex.split(value)) for name, _, value in pairs}


def _libc(root: Path) -> str | None:
    """The box's C library; ours is in the bundle and says nothing about it."""
    patterns = ("lib/libc.so.6", "lib64/libc.so.6", "lib/*-linux-gnu/libc.so.6")
    for pattern in (*patterns, *(f"usr/{pattern}" for pattern in patterns)):
        for path in sorted(root.glob(pattern)):
            found = _GLIBC_VERSION.search(path.read_bytes())
            if found:
                return f"glibc {found.group(1).decode()}"
    return "musl" if any(root.glob("lib/ld-musl-*")) else None


def _can_chown(directory: Path) -> bool:
    """Tried, not guessed: in a user namespace with one user id it fails even for root."""
    path = directory / ".probe-chown"
    path.touch()
    try:
        os.chown(path, 1, 1)
    except OSError:
        return False
    else:
        return True
    finally:
        path.unlink()


def _can_mknod(directory: Path) -> bool:
    path = directory / ".probe-node"
    path.unlink(missing_ok=True)
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        return False
    path.unlink()
    return True


def _mount_points() -> list[str]:
    text = system.read_text(Path("/proc/self/mountinfo")) or ""
    fields = (line.split(" ") for line in text.splitlines())
    points = {_unescaped(field[4]) for field in fields if len(field) > 4}
    return sorted(points)[:_MOUNT_POINTS]


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)
