"""What is on the disk, as the entry that a capture would make of it."""

import os
import stat

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.scanning import FileStatus
from podferry_agent.snapshot.tree import LONGEST, Tree, split_path
from podferry_agent.snapshot.xattrs import is_device, read_xattrs, settle


def lstat(tree: Tree, path: bytes) -> os.stat_result:
    """The status of a path, by one call where it is not too long for that.

    Of a path through a symlink this tells what is behind it: compare the directories as well.
    """
    if 0 < len(path) < LONGEST:
        return os.stat(path, dir_fd=tree.fd, follow_symlinks=False)
    if not path:
        return os.fstat(tree.fd)
    directory, name = split_path(path)
    with tree.directory(directory) as fd:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)


def entry_of(path: bytes, status: FileStatus) -> Entry:
    """As far as `lstat` tells."""
    mode = status.st_mode
    return Entry(
        path,
        shared(mode),
        shared(status.st_uid),
        shared(status.st_gid),
        status.st_size if stat.S_ISREG(mode) else 0,
        status.st_mtime_ns,
        rdev=status.st_rdev if is_device(mode) else 0,
    )


def shared(number: int, numbers: dict[int, int] = {}) -> int:  # noqa: B006 (shared on purpose)
    """One object for all equal modes and owners: a tenth of the memory of a large tree."""
    return numbers.setdefault(number, number)


def open_entry(path: bytes, fd: int, status: FileStatus) -> Entry:
    """An open file or directory. A file that stands for a device becomes one."""
    entry = entry_of(path, status)
    entry.flags = posix.get_flags(fd)
    settle(entry, read_xattrs(fd))
    return entry


def special_entry(tree: Tree, place: tuple[int, bytes], path: bytes, status: FileStatus) -> Entry:
    """A symlink, FIFO, socket or device, by (directory fd, name): never opened."""
    fd, name = place
    entry = entry_of(path, status)
    if entry.is_symlink:
        entry.target = os.readlink(name, dir_fd=fd)
    settle(entry, read_xattrs(tree.outside_path(fd, entry.parent, name)))
    return entry


def found_entry(tree: Tree, path: bytes, status: FileStatus) -> Entry:
    """Whatever has that path."""
    if stat.S_ISDIR(status.st_mode):
        with tree.directory(path) as fd:
            return open_entry(path, fd, os.fstat(fd))
    directory, name = split_path(path)
    if stat.S_ISREG(status.st_mode):
        with tree.file(directory, name) as fd:
            return open_entry(path, fd, os.fstat(fd))
    with tree.directory(directory) as fd:
        return special_entry(tree, (fd, name), path, status)
