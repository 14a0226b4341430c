"""Stands in for a symlink where a directory has to stay because the machine has something in it.

Its children become symlinks instead, so that every path still leads to the snapshot's files.
This happens when a system with a merged /usr is restored over one with a split /usr and the
provider has mounted a driver file or firmware below /lib.
"""

import os
import posixpath

from podferry_agent.snapshot.deleting import protected_inside
from podferry_agent.snapshot.job import Job
from podferry_agent.snapshot.model import TEMPORARY_PREFIX, Entry
from podferry_agent.snapshot.remove import remove_tree
from podferry_agent.snapshot.tree import split_path


def graft(job: Job, entry: Entry) -> None:
    """Lead each child of the kept directory to where the symlink would have led it."""
    directory = entry.path
    parent = split_path(directory)[0]
    if entry.target.startswith(b"/"):
        resolved = posixpath.normpath(entry.target).lstrip(b"/")
    else:
        resolved = posixpath.normpath(parent + b"/" + entry.target).lstrip(b"/")
    children: dict[bytes, list[bytes]] = {}
    for path in job.plan.want:
        children.setdefault(split_path(path)[0], []).append(path)
    _graft(job, directory, entry.target, (resolved, children))


def _graft(
    job: Job, directory: bytes, target: bytes, source: tuple[bytes, dict[bytes, list[bytes]]]
) -> None:
    resolved, children = source
    inner = target if target.startswith(b"/") else b"../" + target
    for wanted in children.get(resolved, ()):
        name = split_path(wanted)[1]
        path = directory + b"/" + name
        if not _is_held(job, path):
            _link(job, path, inner + b"/" + name)
        elif job.plan.want[wanted].is_directory:
            _graft(job, path, inner + b"/" + name, (wanted, children))


def _is_held(job: Job, path: bytes) -> bool:
    if job.live.has_directory(path):
        return protected_inside(job, path) is not None
    directory, name = split_path(path)
    try:
        os.stat(name, dir_fd=job.tree.cached_directory(directory), follow_symlinks=False)
    except FileNotFoundError:
        return False
    return path not in job.live.nodes


def _link(job: Job, path: bytes, target: bytes) -> None:
    directory, name = split_path(path)
    fd = job.tree.cached_directory(directory)
    temporary = TEMPORARY_PREFIX + b"graft"
    remove_tree(fd, temporary)
    os.symlink(target, temporary, dir_fd=fd)
    if job.live.has_directory(path):
        remove_tree(fd, name)
        job.tree.forget()
        fd = job.tree.cached_directory(directory)
    os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
    job.grafted.add(path)
    job.step("graft")
