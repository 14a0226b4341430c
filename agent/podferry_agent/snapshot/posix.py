"""System calls that Python's `os` does not offer; every one works relative to a directory fd."""

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None, use_errno=True)

_SYS_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
_AT_SYMLINK_NOFOLLOW, _AT_EMPTY_PATH = 0x100, 0x1000
_STATX_ATTR_MOUNT_ROOT = 0x2000
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS = 0x80086601, 0x40086602

SYNC_FLAG, IMMUTABLE_FLAG, APPEND_FLAG = 0x08, 0x10, 0x20
NODUMP_FLAG, NOATIME_FLAG, DIRSYNC_FLAG = 0x40, 0x80, 0x10000
BLOCKING_FLAGS = IMMUTABLE_FLAG | APPEND_FLAG
KEPT_FLAGS = SYNC_FLAG | BLOCKING_FLAGS | NODUMP_FLAG | NOATIME_FLAG | DIRSYNC_FLAG

_FLAGS_BUFFER = bytes(8)  # some filesystems write a long, though flags have 32 bits
NO_FLAGS_ERRNOS = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_HOW_SIZE = ctypes.sizeof(_OpenHow)
# A function object of its own, with types: ctypes converts quicker then.
_openat2 = ctypes.CDLL(None, use_errno=True).syscall
_openat2.restype = ctypes.c_long
_openat2.argtypes = (
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
)


def _raise(path: bytes) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), path)


def _how(flags: int) -> _OpenHow:
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    return _OpenHow(flags | os.O_CLOEXEC, 0, resolve)


def open_beneath(root_fd: int, path: bytes, flags: int) -> int:
    """openat2 that follows no symlink and never leaves `root_fd`; ENOSYS on old kernels."""
    how = _how(flags)
    fd = _openat2(_SYS_OPENAT2, root_fd, path, ctypes.addressof(how), _HOW_SIZE)
    if fd < 0:
        _raise(path)
    return int(fd)


def rename_exchange(fd: int, old: bytes, new: bytes) -> None:
    """Swap two names of one directory in a single step."""
    if _libc.renameat2(fd, old, fd, new, RENAME_EXCHANGE) != 0:
        _raise(new)


def syncfs(fd: int) -> None:
    """One barrier for a whole filesystem: thousands of files a second instead of hundreds."""
    if _libc.syncfs(fd) != 0:
        _raise(b"syncfs")


def get_flags(fd: int) -> int:
    """The inode's settable flags (chattr), 0 where the filesystem has none."""
    try:
        found = fcntl.ioctl(fd, _FS_IOC_GETFLAGS, _FLAGS_BUFFER)
    except OSError as error:
        if error.errno in NO_FLAGS_ERRNOS:
            return 0
        raise
    return int.from_bytes(found[:4], sys.byteorder) & KEPT_FLAGS


def set_flags(fd: int, wanted: int) -> None:
    """Set exactly `wanted` of the kept flags and leave the filesystem's own flags as they are."""
    buffer = bytearray(8)
    fcntl.ioctl(fd, _FS_IOC_GETFLAGS, buffer)
    current = struct.unpack("=I", buffer[:4])[0]
    new = (current & ~KEPT_FLAGS) | wanted
    if new != current:
        fcntl.ioctl(fd, _FS_IOC_SETFLAGS, struct.pack("=Ixxxx", new))


@contextmanager
def unlocked(fd: int) -> Iterator[None]:
    """A directory without the flags that keep names from coming and going, for a moment."""
    flags = get_flags(fd)
    if not flags & BLOCKING_FLAGS:
        yield
        return
    with contextlib.suppress(PermissionError):  # then what follows fails, and says so
        set_flags(fd, flags & ~BLOCKING_FLAGS)
    try:
        yield
    finally:
        set_flags(fd, flags)


def is_mount_root(directory_fd: int, name: bytes) -> bool | None:
    """Whether the name is the top of a mount, by statx; None where the kernel cannot tell."""
    result = ctypes.create_string_buffer(256)
    flags = _AT_SYMLINK_NOFOLLOW | (0 if name else _AT_EMPTY_PATH)
    if _libc.statx(directory_fd, name, flags, 0, result) != 0:
        return None
    attributes = struct.unpack_from("=Q", result, 8)[0]
    known = struct.unpack_from("=Q", result, 56)[0]
    if not known & _STATX_ATTR_MOUNT_ROOT:
        return None
    return bool(attributes & _STATX_ATTR_MOUNT_ROOT)
