"""Finds through /proc which processes can change a file: it is open for writing, or mapped so."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from podferry_agent.snapshot.mounts import unescaped

Inode = tuple[int, int]  # device, number

_SHARED_WRITABLE = re.compile(
    rb"^[0-9a-f]+-[0-9a-f]+ .w.s [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(/.*)$", re.MULTILINE
)


@dataclass
class MappedFiles:
    """Files that some process has mapped shared and writable.

    A store to such a page moves the file's times only if the page was clean, so they prove nothing.
    """

    inodes: set[Inode] = field(default_factory=set)
    paths: set[bytes] = field(default_factory=set)  # absolute, as this process sees them

    def has(self, inode: Inode, path: bytes) -> bool:
        """By path as well: overlayfs shows inodes of the layer below in /proc/*/maps."""
        return inode in self.inodes or path in self.paths

    def add(self, other: "MappedFiles") -> None:
        self.inodes |= other.inodes
        self.paths |= other.paths


@dataclass(frozen=True)
class Holder:
    """One process that has a file open, by one of its fds or by a mapping."""

    pid: int
    inode: Inode
    writes: bool
    appends: bool = False  # every write goes to the end, as that of a log


@dataclass
class Holders:
    """Who has any of some files open; `is_blind` if some process could not be looked into."""

    found: list[Holder] = field(default_factory=list)
    is_blind: bool = False

    def writers_of(self, inodes: set[Inode]) -> list[Holder]:
        return [h for h in self.found if h.writes and h.inode in inodes]

    def has_open(self, inodes: set[Inode]) -> bool:
        """Whether one is open, for all we know."""
        return self.is_blind or any(h.inode in inodes for h in self.found)


def mapped_for_writing() -> MappedFiles:
    """Every file that some process has mapped shared and writable, at this moment."""
    result = MappedFiles()
    for pid in _processes():
        for inode, path in _mappings(pid):
            result.inodes.add(inode)
            result.paths.add(path)
    return result


def holders_of(wanted: Iterable[Inode]) -> Holders:
    """Look through all processes for these files."""
    result, inodes = Holders(), set(wanted)
    if not inodes:
        return result
    own = os.getpid()
    pids = [*_processes()]
    result.is_blind = own not in pids  # /proc is not that of this machine, or not there
    for pid in pids:
        if pid == own:
            continue
        fds = _fds(pid, inodes)
        if fds is None:
            result.is_blind = True
        result.found += fds or ()
        mapped = {inode for inode, _ in _mappings(pid) if inode in inodes}
        result.found += [Holder(pid, inode, writes=True) for inode in mapped]
    return result


def _processes() -> Iterator[int]:
    try:
        names = [path.name for path in Path("/proc").iterdir()]
    except FileNotFoundError:
        return
    yield from (int(name) for name in names if name.isdigit())


def _mappings(pid: int) -> list[tuple[Inode, bytes]]:
    """Nothing of a process that has ended, or whose memory may not be looked at."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:  # noqa: PTH123 - hundreds of them, at once
            text = file.read()
    except OSError:
        return []
    return [
        ((os.makedev(int(major, 16), int(minor, 16)), int(inode)), unescaped(path))
        for major, minor, inode, path in _SHARED_WRITABLE.findall(text)
    ]


def _fds(pid: int, wanted: set[Inode]) -> list[Holder] | None:
    try:
        directory: int = os.open(f"/proc/{pid}/fd", os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return None
    except OSError:
        return []
    try:
        holders = (_holder(pid, directory, number, wanted) for number in os.listdir(directory))
        return [holder for holder in holders if holder]
    except OSError:
        return []  # it ended
    finally:
        os.close(directory)


def _holder(pid: int, directory: int, number: str, wanted: set[Inode]) -> Holder | None:
    try:
        status = os.stat(number, dir_fd=directory)
        inode = (status.st_dev, status.st_ino)
        if inode not in wanted:
            return None
        flags = _flags(pid, number)
    except OSError:
        return None  # closed meanwhile
    writes = flags & os.O_ACCMODE != os.O_RDONLY
    return Holder(pid, inode, writes, bool(flags & os.O_APPEND))


def _flags(pid: int, number: str) -> int:
    with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"flags:"):
                return int(line.split()[1], 8)
    return os.O_RDWR
