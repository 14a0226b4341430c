"""The directory beside the tree where everything new waits until all of it is there.

The live tree is not touched by what happens here. A run that was killed leaves its files, and the
next one fetches only what they lack.
"""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.model import AGENT_DIRECTORY, TEMPORARY_PREFIX, TreeSpec
from podferry_agent.snapshot.remove import remove_tree
from podferry_agent.snapshot.tree import OPEN_DIRECTORY

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the machine gives a new file by itself, so that only the rest need be set."""

    uid: int
    gid: int
    lost_mode: int  # bits of a mode that a new file does not get


class StageDirectory:
    """On the same mount as the tree, so that a rename moves things in."""

    def __init__(self, spec: TreeSpec) -> None:
        below = (
            AGENT_DIRECTORY[1:] + b"/stage"
            if spec.kind == "environment"
            else (TEMPORARY_PREFIX + b"stage")
        )
        self.path = Path(os.fsdecode(spec.tree_root)) / os.fsdecode(below)
        self._made = [p for p in (self.path, self.path.parent) if not p.exists()]
        with self._unlocked():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.fd = os.open(self.path, OPEN_DIRECTORY)
        _inherit_nothing(self.fd)
        self.device = os.fstat(self.fd).st_dev
        self.defaults = self._learn_defaults()

    def outside_path(self, place: bytes) -> bytes:
        """For calls that know no directory fd."""
        return os.fsencode(self.path) + b"/" + place

    def leftovers(self, wanted: Collection[bytes]) -> set[bytes]:
        """Of the wanted places, those that a killed run left; whatever else it left is removed."""
        found: set[bytes] = set()
        stack = [b""]
        while stack:
            for place, is_directory in self._sort_out(stack.pop(), wanted):
                found.add(place)
                if is_directory:
                    stack.append(place)
        return found

    def room(self) -> int:
        status = os.statvfs(self.fd)
        if not status.f_blocks:
            return sys.maxsize  # ramfs and some remote filesystems do not tell
        return status.f_bavail * status.f_frsize

    def remove(self) -> None:
        """Take the directory away again, and its parent if that was made for it."""
        with self._unlocked(), contextlib.suppress(OSError):  # a later restore removes it
            _remove_path(self.path)
        for path in self._made[1:]:
            with contextlib.suppress(OSError):  # in use by the agent for something else
                path.rmdir()

    def close(self) -> None:
        os.close(self.fd)

    @contextlib.contextmanager
    def _unlocked(self) -> Iterator[None]:
        """The nearest directory that exists may be immutable: the top of a tree can be."""
        above = next(path for path in self.path.parents if path.exists())
        fd = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with posix.unlocked(fd):
                yield
        finally:
            os.close(fd)

    def _learn_defaults(self) -> Defaults:
        """By trying: the umask, and owners that a mount option or a namespace decides."""
        name = b"probe"
        remove_tree(self.fd, name)
        fd = os.open(name, NEW_FILE, 0o777, dir_fd=self.fd)
        try:
            status = os.fstat(fd)
        finally:
            os.close(fd)
            os.unlink(name, dir_fd=self.fd)
        return Defaults(status.st_uid, status.st_gid, 0o7777 & ~status.st_mode)

    def _sort_out(self, place: bytes, wanted: Collection[bytes]) -> Iterator[tuple[bytes, bool]]:
        """Names in one directory of the stage, and whether they are directories."""
        fd = os.open(place or b".", OPEN_DIRECTORY, dir_fd=self.fd)
        try:
            if place:
                os.fchmod(fd, 0o700)
                _inherit_nothing(fd)
            with os.scandir(fd) as entries:
                rows = [(os.fsencode(e.name), e.stat(follow_symlinks=False)) for e in entries]
            prefix = place + b"/" if place else b""
            for name, status in rows:
                is_directory = stat.S_ISDIR(status.st_mode)
                # Two names of one inode could not be written to independently.
                is_file = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
                if prefix + name in wanted and (is_directory or is_file):
                    yield prefix + name, is_directory
                else:
                    remove_tree(fd, name)
        finally:
            os.close(fd)


def _remove_path(path: Path) -> None:
    parent = os.open(path.parent, OPEN_DIRECTORY)
    try:
        remove_tree(parent, os.fsencode(path.name))
    finally:
        os.close(parent)


def _inherit_nothing(fd: int) -> None:
    """What is made in a directory would get its flags, its default ACL and perhaps its group.

    A new file is taken to have none.
    """
    try:
        posix.set_flags(fd, 0)
    except OSError as error:
        if error.errno not in (errno.EPERM, *posix.NO_FLAGS_ERRNOS):
            raise
    if os.fstat(fd).st_mode & stat.S_ISGID:
        os.fchmod(fd, 0o700)
    try:
        os.removexattr(fd, "system.posix_acl_default")
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
