"""Gives a file its owner, attributes, mode, times and flags, and notes what the machine refuses."""

import errno
import os
import stat
from collections.abc import Callable
from functools import partial

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.warning import Warnings
from podferry_agent.snapshot.xattrs import (
    WANTED_NODE,
    WANTED_OWNER,
    WANTED_XATTR,
    node_wish,
    owner_wish,
    read_xattrs,
)

_REFUSED = (
    errno.EPERM,
    errno.EACCES,
    errno.EINVAL,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EROFS,
    errno.ENOSPC,
    errno.E2BIG,
    errno.ERANGE,
    errno.ENAMETOOLONG,
)


class MetadataWriter:
    """Applies entries: owner first, which clears setuid and capabilities, and times last."""

    def __init__(self, warnings: Warnings) -> None:
        self.warnings = warnings
        self._is_root = os.geteuid() == 0

    def apply_fd(self, fd: int, entry: Entry, *, placeholder: bool = False) -> None:
        """An open regular file or directory."""
        status = os.fstat(fd)
        wishes = dict(entry.xattrs)
        if placeholder:
            wishes[WANTED_NODE] = node_wish(entry)
        if (status.st_uid, status.st_gid) != (entry.uid, entry.gid):
            try:
                os.fchown(fd, entry.uid, entry.gid)
            except OSError as error:
                self._refused("owner", entry, error)
                wishes[WANTED_OWNER] = owner_wish(entry)
        self._apply_xattrs(fd, entry, wishes)
        mode = 0o600 if placeholder else stat.S_IMODE(entry.mode)
        status = os.fstat(fd)
        if stat.S_IMODE(status.st_mode) != mode:
            self._try("mode", entry, lambda: os.fchmod(fd, mode))
        if status.st_mtime_ns != entry.mtime_ns:
            self.set_time(fd, entry)

    def set_time(self, fd: int, entry: Entry) -> None:
        """For an open file that is right but for that."""
        try:
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
        except OSError as error:
            self._refused("mtime", entry, error)

    def set_time_of_name(self, directory_fd: int, name: bytes, entry: Entry) -> None:
        """The same by name, never followed."""
        times = (entry.mtime_ns, entry.mtime_ns)
        try:
            os.utime(name, ns=times, dir_fd=directory_fd, follow_symlinks=False)
        except OSError as error:
            self._refused("mtime", entry, error)

    def apply_name(
        self, place: tuple[int, bytes], entry: Entry, outside: bytes, *, is_new: bool = False
    ) -> None:
        """A symlink, FIFO, socket or device: by (directory fd, name), never followed or opened.

        `outside` is its path for calls that know no directory fd. What is new in the stage has no
        attributes.
        """
        fd, name = place
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if (status.st_uid, status.st_gid) != (entry.uid, entry.gid):
            self._try(
                "owner",
                entry,
                lambda: os.chown(name, entry.uid, entry.gid, dir_fd=fd, follow_symlinks=False),
            )
        if entry.xattrs or not is_new:
            self._apply_xattrs(outside, entry, dict(entry.xattrs))
        if not entry.is_symlink:
            mode = stat.S_IMODE(entry.mode)
            self._try("mode", entry, lambda: os.chmod(name, mode, dir_fd=fd))
        self.set_time_of_name(fd, name, entry)

    def apply_flags(self, fd: int, entry: Entry) -> None:
        """Last of all: after this an immutable file takes no change."""
        if posix.get_flags(fd) != entry.flags:
            self._try("flags", entry, lambda: posix.set_flags(fd, entry.flags))

    def _apply_xattrs(self, target: int | bytes, entry: Entry, wanted: dict[bytes, bytes]) -> None:
        try:
            present = dict(read_xattrs(target))
        except OSError as error:
            self._refused("xattrs", entry, error)
            return
        if present == wanted:
            return
        self._make_writable(target)
        follow = isinstance(target, int)
        for name in present.keys() - wanted.keys():
            remove = partial(os.removexattr, target, name, follow_symlinks=follow)
            self._try("xattrs", entry, remove)
        for name, value in wanted.items():
            if present.get(name) != value:
                self._set_xattr(target, entry, name, value)

    def _set_xattr(self, target: int | bytes, entry: Entry, name: bytes, value: bytes) -> None:
        follow = isinstance(target, int)
        try:
            os.setxattr(target, name, value, follow_symlinks=follow)
        except OSError as error:
            self._refused("xattrs", entry, error)
        else:
            return
        if follow and not name.startswith(b"user."):
            try:
                os.setxattr(target, WANTED_XATTR + name, value)
            except OSError as error:
                self._refused("xattr_wish", entry, error)

    def _make_writable(self, target: int | bytes) -> None:
        """Attributes of a read-only file cannot be set by its owner; the mode follows later."""
        if self._is_root or not isinstance(target, int):
            return
        mode = stat.S_IMODE(os.fstat(target).st_mode)
        if not mode & stat.S_IWUSR:
            os.fchmod(target, mode | stat.S_IWUSR)

    def _try(self, kind: str, entry: Entry, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            self._refused(kind, entry, error)

    def _refused(self, kind: str, entry: Entry, error: OSError) -> None:
        if error.errno not in _REFUSED:
            raise error
        self.warnings.add(f"{kind}_not_applied", entry.path, error)
