"""Looks at everything once more after the swap, and opens only what `lstat` does not prove."""

import os
import stat
from collections.abc import Iterator

from podferry_agent.snapshot.chunks import ChunkTable
from podferry_agent.snapshot.compare import same_status
from podferry_agent.snapshot.found import lstat
from podferry_agent.snapshot.job import Job
from podferry_agent.snapshot.model import BARE, Difference, Entry, is_below
from podferry_agent.snapshot.plan import Action
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.remove import GONE
from podferry_agent.snapshot.scanning import FileStatus
from podferry_agent.snapshot.tree import Tree, split_path
from podferry_agent.snapshot.verify import Checker, Row, link_differences

_COUNTED = 4096  # names between two reports of the progress


class Recheck:
    """Of one swap. What proves a file right is said in `_is_proven`; any other is hashed."""

    def __init__(self, job: Job, table: ChunkTable, meter: Meter) -> None:
        self._job = job
        self._meter = meter
        self._checker = Checker(job.tree, table, job.spec.chunk_key, job.live.bare)
        self._shared: dict[bytes, FileStatus] = {}  # what has several names, here or there

    def differences(self) -> list[Difference]:
        """Those that nothing explains that was reported before."""
        plan = self._job.plan
        self._meter.phase("verify", files=len(plan.want))
        found = self._checker.differences(self._unproven())
        found += link_differences({path: plan.want[path] for path in self._shared}, self._shared)
        found += [Difference(path, "extra") for path in plan.deletions if self._exists(path)]
        self._job.tree.forget()
        self._meter.finish()
        return sorted(
            (d for d in found if not self._is_explained(d)), key=lambda d: (d.path, d.kind)
        )

    def _unproven(self) -> Iterator[Row]:
        actions, tree, count = self._job.plan.actions, self._job.tree, 0
        for path, entry in self._job.plan.want.items():
            action = actions[path]
            if action is Action.LEAVE and not entry.bits & BARE:
                continue  # not in the snapshot: nothing is promised
            status = _status(tree, path)
            if status is not None and (status.st_nlink > 1 or entry.link):
                self._note_shared(entry, status)
            if status is None or not self._is_proven(action, entry, status):
                yield entry, status
            count += 1
            if not count % _COUNTED:
                self._meter.add(0, _COUNTED)
        self._meter.add(0, len(actions) - count // _COUNTED * _COUNTED)

    def _note_shared(self, entry: Entry, status: FileStatus) -> None:
        if not stat.S_ISDIR(status.st_mode):
            self._shared[entry.path] = status

    def _is_proven(self, action: Action, entry: Entry, status: FileStatus) -> bool:
        """Whether something is right by what `lstat` says after the swap.

        What was kept has the ctime it had before it was hashed. What was staged was checked chunk
        by chunk before it was written, and got the snapshot's mtime last: who writes to it
        changes that. Attributes and flags are read again where some were to be set.
        """
        if action is Action.KEEP:
            before = self._job.live.nodes[entry.path]
            return (
                before.st_ino == status.st_ino
                and before.st_ctime_ns == status.st_ctime_ns
                and before.st_dev == status.st_dev
            )
        if action is not Action.MAKE:
            return False
        if stat.S_ISREG(entry.mode):
            return status.st_size == entry.size and same_status(entry, status)
        has_more = entry.xattrs or entry.flags or entry.bits & BARE
        return stat.S_ISDIR(entry.mode) and not has_more and same_status(entry, status)

    def _exists(self, path: bytes) -> bool:
        """Not by way of a symlink that a directory above it has become."""
        directory, name = split_path(path)
        try:
            fd = self._job.tree.cached_directory(directory)
            os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            if error.errno in GONE:
                return False
            raise
        return True

    def _is_explained(self, difference: Difference) -> bool:
        job, path = self._job, difference.path
        if is_below(path, job.kept_directories):
            return True
        kinds = job.warnings.paths.get(path, set())
        return bool(kinds & {f"{difference.kind}_not_applied", "not_replaced", "not_deleted"})


def _status(tree: Tree, path: bytes) -> FileStatus | None:
    try:
        return lstat(tree, path)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise
