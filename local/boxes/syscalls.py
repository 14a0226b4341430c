"""The few Linux system calls that a box needs and that Python 3.11 does not offer."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NEW_NAMESPACE_MOUNT = 0x00020000
NEW_NAMESPACE_CGROUP = 0x02000000
NEW_NAMESPACE_UTS = 0x04000000
NEW_NAMESPACE_IPC = 0x08000000
NEW_NAMESPACE_USER = 0x10000000
NEW_NAMESPACE_PID = 0x20000000

MOUNT_READ_ONLY = 0x1
MOUNT_NO_SUID = 0x2
MOUNT_NO_DEVICES = 0x4
MOUNT_NO_EXEC = 0x8
MOUNT_REMOUNT = 0x20
MOUNT_BIND = 0x1000
MOUNT_RECURSIVE = 0x4000
MOUNT_PRIVATE = 0x40000

_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_ATTRIBUTE_READ_ONLY = 0x1
_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36
# The same number on every architecture: system calls from 424 on are shared.
_MOUNT_SETATTR = 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}

_libc = ctypes.CDLL(None, use_errno=True)

PathLike = str | Path


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


def _check(result: int, what: str) -> None:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _encode(value: PathLike | None) -> bytes | None:
    return None if value is None else os.fsencode(value)


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def set_namespaces(pidfd: int, flags: int) -> None:
    """Join the namespaces of the process behind `pidfd`."""
    _check(_libc.setns(pidfd, flags), "setns")


def mount(
    source: PathLike | None,
    target: PathLike,
    filesystem: str | None = None,
    flags: int = 0,
    options: str | None = None,
) -> None:
    result = _libc.mount(
        _encode(source),
        _encode(target),
        _encode(filesystem),
        ctypes.c_ulong(flags),
        _encode(options),
    )
    _check(result, f"mount {filesystem or ''} {source} on {target} ({options or 'no options'})")


def bind(source: PathLike, target: PathLike, *, read_only: bool = False) -> None:
    mount(source, target, None, MOUNT_BIND)
    if read_only:
        flags = MOUNT_BIND | MOUNT_REMOUNT | MOUNT_READ_ONLY | _locked_flags(target)
        mount(None, target, None, flags)


def bind_tree_read_only(source: PathLike, target: PathLike) -> None:
    """Bind a whole mount tree and make every mount in it read-only (kernel 5.12)."""
    mount(source, target, None, MOUNT_BIND | MOUNT_RECURSIVE)
    attributes = _MountAttributes(set=_ATTRIBUTE_READ_ONLY)
    result = _libc.syscall(
        _MOUNT_SETATTR,
        _AT_FDCWD,
        _encode(target),
        _AT_RECURSIVE,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
    )
    _check(result, f"mount_setattr {target}")


def _locked_flags(target: PathLike) -> int:
    """Flags that a user namespace may not drop from a mount it inherited."""
    present = os.statvfs(target).f_flag
    pairs = (
        (os.ST_NOSUID, MOUNT_NO_SUID),
        (os.ST_NODEV, MOUNT_NO_DEVICES),
        (os.ST_NOEXEC, MOUNT_NO_EXEC),
    )
    return sum(flag for bit, flag in pairs if present & bit)


def unmount_detached(target: PathLike) -> None:
    _check(_libc.umount2(_encode(target), _DETACH), f"umount {target}")


def pivot_root_here() -> None:
    """Make the working directory the root of this mount namespace and drop the old root."""
    machine = os.uname().machine
    if machine not in _PIVOT_ROOT:
        raise OSError(f"pivot_root: its number on {machine} is not known; add it to syscalls.py")
    _check(_libc.syscall(_PIVOT_ROOT[machine], b".", b"."), "pivot_root")
    unmount_detached(".")
    os.chdir("/")


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def die_with_parent(signal_number: int) -> None:
    """Ask the kernel for a signal when the parent ends. A change of credentials clears it."""
    _check(_libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal_number, 0, 0, 0), "prctl PDEATHSIG")


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant, so that none can get away."""
    _check(_libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl CHILD_SUBREAPER")
