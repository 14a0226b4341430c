"""What a directory shows: its names, and what `lstat` says about each."""

import os
import struct
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from podferry_agent.snapshot.listings import row_of
from podferry_agent.snapshot.native import helper


class Status(NamedTuple):
    """What the engine uses of an `os.stat_result`, under the same names; made more quickly."""

    st_ino: int
    st_dev: int
    st_ctime_ns: int
    st_mtime_ns: int
    st_size: int
    st_mode: int
    st_uid: int
    st_gid: int
    st_nlink: int
    st_rdev: int


FileStatus = os.stat_result | Status
_STATUS = struct.Struct("<QQqqqIIIIQ")  # as the compiled helper writes it


class Scan:
    """One look at a directory: names joined by zero bytes, and the rows that tell of a change.

    Of a directory that did not change nobody asks for more.
    """

    def __init__(self, names: bytes, rows: bytes, packed: bytes) -> None:
        self.names = names
        self.rows = rows
        self._packed = packed

    @cached_property
    def statuses(self) -> list[FileStatus]:
        return list(map(Status._make, _STATUS.iter_unpack(self._packed)))

    def named(self) -> Iterator[tuple[bytes, FileStatus]]:
        """Each name with its status."""
        names = self.names.split(b"\0") if self.names else []
        return zip(names, self.statuses, strict=True)


class _SlowScan(Scan):
    """The same out of objects of the interpreter."""

    def __init__(self, found: list[tuple[str, os.stat_result]]) -> None:
        statuses = [status for _, status in found]
        rows = b"".join([row_of(status) for status in statuses])
        super().__init__(os.fsencode("\0".join([name for name, _ in found])), rows, b"")
        self.__dict__["statuses"] = statuses


def scan(fd: int, failed: Callable[[bytes, OSError], None]) -> Scan:
    """All names of a directory, in the order of the kernel.

    `failed` is told the names that vanished in between, or cannot be looked at.
    """
    native = helper()
    found = native.scan(fd) if native else None
    return _slow_scan(fd, failed) if found is None else Scan(*found)


def _slow_scan(fd: int, failed: Callable[[bytes, OSError], None]) -> Scan:
    try:
        with os.scandir(fd) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError:
        # Not before scandir is closed: both share the fd's position, which is then set back.
        found = list(_one_by_one(fd, failed))
    return _SlowScan(found)


def _one_by_one(
    fd: int, failed: Callable[[bytes, OSError], None]
) -> Iterator[tuple[str, os.stat_result]]:
    for name in os.listdir(fd):
        try:
            yield name, os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            failed(os.fsencode(name), error)
