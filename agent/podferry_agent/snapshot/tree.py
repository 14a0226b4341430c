"""A tree of the machine, reached by directory fds: no symlink is followed, no path too long."""

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from podferry_agent.snapshot import posix

LONGEST = 3000  # bytes of a path given to one system call; PATH_MAX is 4096
# The name went away, or became something else, between being listed and being looked at.
VANISHED_ERRNOS = (errno.ENOENT, errno.ESTALE, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CACHED = 64


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Parent and name of a relative path."""
    parent, _, name = path.rpartition(b"/")
    return parent, name


class Tree:
    """Opens directories of one tree; safe to share between threads."""

    def __init__(self, root: bytes) -> None:
        self.root = root
        self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.aliases: dict[bytes, bytes] = {}  # directory being built -> its temporary path
        self._cache: OrderedDict[bytes, int] = OrderedDict()
        self._openat2 = True
        self._lock = threading.Lock()
        self._proc = os.path.isdir("/proc/self/fd")  # noqa: PTH112

    def close(self) -> None:
        self.forget()
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def forget(self) -> None:
        """Drop cached fds: needed when a directory was replaced by another one."""
        with self._lock:
            while self._cache:
                os.close(self._cache.popitem()[1])

    def open_directory(self, path: bytes) -> int:
        """A new fd of a directory of the tree; the caller closes it."""
        fd = os.dup(self.fd)
        for segment in _segments(self._real(path)):
            try:
                following = self._open_segment(fd, segment)
            finally:
                os.close(fd)
            fd = following
        return fd

    @contextmanager
    def directory(self, path: bytes) -> Iterator[int]:
        fd = self.open_directory(path)
        try:
            yield fd
        finally:
            os.close(fd)

    def cached_directory(self, path: bytes) -> int:
        """An fd that stays open for a while; for single-threaded phases, not to be closed."""
        with self._lock:
            fd = self._cache.pop(path, -1)
            if fd < 0:
                fd = self.open_directory(path)
            self._cache[path] = fd
            if len(self._cache) > _CACHED:
                os.close(self._cache.popitem(last=False)[1])
        return fd

    def open_file(self, directory_fd: int, name: bytes) -> int:
        """Open a regular file for reading; its access time stays where that is allowed."""
        try:
            return os.open(name, _OPEN_FILE | os.O_NOATIME, dir_fd=directory_fd)
        except PermissionError:
            return os.open(name, _OPEN_FILE, dir_fd=directory_fd)

    @contextmanager
    def file(self, directory: bytes, name: bytes) -> Iterator[int]:
        """An open regular file of the tree."""
        with self.directory(directory) as parent:
            fd = self.open_file(parent, name)
        try:
            yield fd
        finally:
            os.close(fd)

    def outside_path(self, directory_fd: int, path: bytes, name: bytes) -> bytes:
        """A path for calls that know no directory fd (xattrs), short however deep the file is."""
        if self._proc:
            return b"/proc/self/fd/%d/%s" % (directory_fd, name)
        return b"/".join(part for part in (self.root.rstrip(b"/"), self._real(path), name) if part)

    def _real(self, path: bytes) -> bytes:
        for directory, temporary in self.aliases.items():
            if path == directory or path.startswith(directory + b"/"):
                return temporary + path[len(directory) :]
        return path

    def _open_segment(self, fd: int, segment: bytes) -> int:
        if self._openat2:
            try:
                return posix.open_beneath(fd, segment, OPEN_DIRECTORY)
            except OSError as error:
                # gVisor and old kernels lack the call; some seccomp profiles answer EPERM;
                # EAGAIN means that a rename elsewhere raced with it.
                if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
                    raise
                self._openat2 = error.errno == errno.EAGAIN
        return _open_step_by_step(fd, segment)


def _segments(path: bytes) -> Iterator[bytes]:
    while len(path) > LONGEST:
        cut = path.rfind(b"/", 0, LONGEST)
        yield path[:cut]
        path = path[cut + 1 :]
    if path:
        yield path


def _open_step_by_step(fd: int, segment: bytes) -> int:
    current = os.dup(fd)
    for name in segment.split(b"/"):
        try:
            following = os.open(name, OPEN_DIRECTORY, dir_fd=current)
        finally:
            os.close(current)
        current = following
    return current
