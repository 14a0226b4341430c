"""Takes paths away from a live tree, never what belongs to the machine or is mounted."""

import errno
import os
import stat

from podferry_agent.snapshot.job import Job
from podferry_agent.snapshot.model import TEMPORARY_PREFIX
from podferry_agent.snapshot.remove import GONE, HELD, remove_name
from podferry_agent.snapshot.tree import split_path


def remove_path(job: Job, path: bytes) -> bool:
    """Delete a path that the snapshot does not have. What cannot go is left, with a warning."""
    directory, name = split_path(path)
    try:
        remove_name(job.tree.cached_directory(directory), name)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            job.kept_directories.add(path)  # holds something of the machine
        elif error.errno in HELD:
            job.warnings.add("not_deleted", path, error)
        elif error.errno not in GONE:
            raise
        return False
    job.deleted += 1
    job.step("delete")
    return True


def protected_inside(job: Job, path: bytes) -> bytes | None:
    """Something in a directory that is not the pod's: a mount, or a machine-owned file."""
    mounts = job.rules.protects_below(job.spec.pod_prefix + b"/" + path)
    if mounts:
        return mounts[0]
    stack = [path]
    while stack:
        directory = stack.pop()
        with job.tree.directory(directory) as fd, os.scandir(fd) as found:
            for entry in found:
                name = os.fsencode(entry.name)
                child = directory + b"/" + name
                if name.startswith(TEMPORARY_PREFIX):
                    continue
                if child not in job.live.nodes and not _is_socket(entry):
                    return child
                if entry.is_dir(follow_symlinks=False):
                    stack.append(child)
    return None


def _is_socket(entry: "os.DirEntry[str]") -> bool:
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
