"""The last pass of a swap: metadata of what was kept, and of directories, deepest first."""

import errno
import os
from collections.abc import Iterable

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.job import Job
from podferry_agent.snapshot.model import BARE, Entry, sort_key
from podferry_agent.snapshot.plan import Action
from podferry_agent.snapshot.remove import GONE
from podferry_agent.snapshot.tree import Tree, split_path


def finish_metadata(job: Job) -> None:
    """Owners, modes, times and flags; after this an immutable file takes no change."""
    actions = job.plan.actions
    unfinished = [p for p, entry in job.plan.want.items() if _needs_finish(entry, actions[p])]
    for path in sorted(unfinished, key=sort_key, reverse=True):
        entry = job.plan.want[path]
        action = actions[path]
        if _is_under_kept(job, path):
            continue
        try:
            _finish(job, entry, action)
        except OSError as error:
            if error.errno not in (*GONE, errno.EROFS):
                raise
            job.warnings.add("metadata_not_applied", path, error)
    job.tree.forget()


def mend_directory_times(tree: Tree, entries: Iterable[Entry]) -> None:
    """Set back the times of directories in which a program of the box wrote something."""
    for entry in entries:
        if not entry.is_directory or entry.bits & BARE:
            continue
        try:
            with tree.directory(entry.path) as fd:
                status = os.fstat(fd)
                if status.st_mtime_ns != entry.mtime_ns:
                    os.utime(fd, ns=(status.st_atime_ns, entry.mtime_ns))
        except OSError as error:
            # A directory that had to stay a link, or that a mount covers, was reported before.
            if error.errno not in (*GONE, errno.EROFS, errno.EPERM):
                raise


def _needs_finish(entry: Entry, action: Action) -> bool:
    if entry.bits & BARE or action is Action.LEAVE:
        return False
    return action is Action.FIX or entry.is_directory or (entry.is_regular and entry.flags != 0)


def _is_under_kept(job: Job, path: bytes) -> bool:
    return any(path == kept or path.startswith(kept + b"/") for kept in job.kept_directories)


def _finish(job: Job, entry: Entry, action: Action) -> None:
    parent, name = split_path(entry.path)
    if entry.is_directory:
        with job.tree.directory(entry.path) as fd:
            _apply(job, fd, entry)
    elif entry.is_regular and action is Action.FIX:
        with job.tree.file(parent, name) as fd:
            _apply(job, fd, entry)
    elif entry.is_regular and entry.flags:
        with job.tree.file(parent, name) as fd:
            job.metadata.apply_flags(fd, entry)
    elif action is Action.FIX:
        job.metadata.apply_name(job.tree.cached_directory(parent), name, entry)
    else:
        return
    job.step("metadata")


def _apply(job: Job, fd: int, entry: Entry) -> None:
    if posix.get_flags(fd) & posix.BLOCKING_FLAGS:
        _unblock(fd)
    job.metadata.apply_fd(fd, entry)
    job.metadata.apply_flags(fd, entry)


def _unblock(fd: int) -> None:
    try:
        posix.set_flags(fd, posix.get_flags(fd) & ~posix.BLOCKING_FLAGS)
    except PermissionError:
        return  # no CAP_LINUX_IMMUTABLE: what follows fails and is reported
