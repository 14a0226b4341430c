"""The last pass of a swap: metadata of what was kept, and of directories, deepest first."""

import errno
import os
import stat
from collections.abc import Iterable

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.found import lstat
from podferry_agent.snapshot.job import Job
from podferry_agent.snapshot.model import BARE, Entry, is_below, sort_key
from podferry_agent.snapshot.plan import Action
from podferry_agent.snapshot.remove import GONE
from podferry_agent.snapshot.tree import Tree, split_path


def finish_metadata(job: Job) -> None:
    """Owners, modes, times and flags; after this an immutable file takes no change."""
    plan = job.plan
    loose = {entry.path for entry in plan.loose()}
    touched = {split_path(path)[0] for path in (*loose, *plan.deletions, *job.live.leftovers)}
    touched |= {b"", *loose}  # the stage came and went in the top directory
    unfinished = [
        entry for entry in plan.want.values() if _needs_finish(entry, plan.actions, touched)
    ]
    unfinished.sort(key=lambda entry: sort_key(entry.path), reverse=True)
    for entry in unfinished:
        if is_below(entry.path, job.kept_directories):
            continue
        try:
            _finish(job, entry, plan.actions[entry.path])
        except OSError as error:
            if error.errno not in (*GONE, errno.EROFS):
                raise
            job.warnings.add("metadata_not_applied", entry.path, error)
    job.tree.forget()


def mend_directory_times(tree: Tree, entries: Iterable[Entry]) -> None:
    """Set back the times of directories in which a program of the box wrote something."""
    for entry in entries:
        if not entry.is_directory or entry.bits & BARE:
            continue
        try:
            status = lstat(tree, entry.path)
            if stat.S_ISDIR(status.st_mode) and status.st_mtime_ns != entry.mtime_ns:
                with tree.directory(entry.path) as fd:
                    os.utime(fd, ns=(status.st_atime_ns, entry.mtime_ns))
        except OSError as error:
            # A directory that had to stay a link, or that a mount covers, was reported before.
            if error.errno not in (*GONE, errno.EROFS, errno.EPERM):
                raise


def _needs_finish(entry: Entry, actions: dict[bytes, Action], touched: set[bytes]) -> bool:
    """Whether it is not yet, or no longer, as the snapshot has it."""
    action = actions[entry.path]
    if entry.bits & BARE or action is Action.LEAVE:
        return False
    if action is Action.FIX or (stat.S_ISDIR(entry.mode) and entry.path in touched):
        return True
    # Flags come last, also in a branch: with them it could not have been moved or filled.
    has_flags = entry.flags != 0 and (entry.is_directory or entry.is_regular)
    return has_flags and action is not Action.KEEP


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
        fd = job.tree.cached_directory(parent)
        job.metadata.apply_name((fd, name), entry, job.tree.outside_path(fd, parent, name))
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
