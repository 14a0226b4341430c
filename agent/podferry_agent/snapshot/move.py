"""Renames a new thing over its target, whatever keeps the target from being replaced."""

import errno
import os

from podferry_agent.snapshot.branches import staged_name
from podferry_agent.snapshot.job import Job
from podferry_agent.snapshot.model import TEMPORARY_PREFIX, display
from podferry_agent.snapshot.remove import HELD, remove_tree, unlock
from podferry_agent.snapshot.tree import split_path

_OCCUPIED = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EXDEV)
Place = tuple[int, bytes]  # directory fd, name


def temporary_name(path: bytes) -> bytes:
    """Beside the target, short, and known to every walk as not the pod's."""
    return TEMPORARY_PREFIX + staged_name(path)[:20]


class BranchNotMovedError(Exception):
    """Something came to stand where there was nothing, or the place is on another filesystem."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        super().__init__(display(path))


def move_branch(job: Job, path: bytes) -> None:
    """Rename a whole new directory to its place, which may be taken by an empty one at most."""
    place = job.plan.branches.directories[path]
    parent, name = split_path(path)
    fd = job.tree.cached_directory(parent)
    try:
        try:
            os.rename(place, name, src_dir_fd=job.stage.fd, dst_dir_fd=fd)
        except PermissionError:
            unlock(fd)
            os.rename(place, name, src_dir_fd=job.stage.fd, dst_dir_fd=fd)
    except OSError as error:
        if error.errno in _OCCUPIED:
            raise BranchNotMovedError(path) from error
        raise


def replace(job: Job, path: bytes, source: Place, target: Place) -> None:
    """Rename; after unlocking a second time; else the target stays, with a warning."""
    try:
        move(job, path, source, target)
    except OSError as error:
        if error.errno not in HELD:
            raise
        try:
            unlock(*target)
            move(job, path, source, target)
        except OSError as again:
            if again.errno not in HELD:
                raise
            job.warnings.add("not_replaced", path, again)
            remove_tree(*source)


def move(job: Job, path: bytes, source: Place, target: Place) -> None:
    try:
        os.rename(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0])
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_across(job, path, source, target)


def _copy_across(job: Job, path: bytes, source: Place, target: Place) -> None:
    """The target's directory is another filesystem (a btrfs subvolume): copy beside it."""
    temporary = temporary_name(path)
    old = os.open(source[1], os.O_RDONLY | os.O_NOFOLLOW, dir_fd=source[0])
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        new = os.open(temporary, flags, 0o600, dir_fd=target[0])
        try:
            _copy_sparse(old, new)
            job.metadata.apply_fd(new, job.plan.want[path])
        finally:
            os.close(new)
    finally:
        os.close(old)
    os.rename(temporary, target[1], src_dir_fd=target[0], dst_dir_fd=target[0])
    os.unlink(source[1], dir_fd=source[0])


def _copy_sparse(source: int, target: int) -> None:
    size = os.fstat(source).st_size
    os.ftruncate(target, size)
    position = 0
    while position < size:
        try:
            position = os.lseek(source, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(source, position, os.SEEK_HOLE)
        while position < end:
            piece = os.pread(source, min(4 << 20, end - position), position)
            if not piece:
                return
            position += os.pwrite(target, piece, position)
