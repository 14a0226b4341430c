"""The swap: moves what was staged into the live tree by renames, in seconds, in one thread.

No program of the box runs in here, and nothing is loaded: between two renames the box may have
the C library of one system and the programs of another.
"""

import errno
import os
import stat
from bisect import bisect_left
from collections.abc import Callable

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.branches import staged_name
from podferry_agent.snapshot.deleting import protected_inside, remove_path
from podferry_agent.snapshot.graft import graft
from podferry_agent.snapshot.job import Job, rank
from podferry_agent.snapshot.model import BARE, UNREADABLE, Entry, display, is_below, sort_key
from podferry_agent.snapshot.move import move, move_branch, replace, temporary_name
from podferry_agent.snapshot.nodes import make_node
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.remove import HELD, remove_name, remove_tree, unlock
from podferry_agent.snapshot.tree import split_path

_NO_EXCHANGE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EBUSY)


class Swap:
    """One swap. Every step can be repeated: a killed run is followed by a new plan."""

    def __init__(self, job: Job, meter: Meter) -> None:
        self._job = job
        self._meter = meter
        self._done: set[bytes] = set()
        self._late: list[bytes] = []
        # What is made, without what comes with the branch that it is in.
        self._loose = {entry.path: entry for entry in job.plan.loose()}
        self._sorted = sorted(self._loose, key=sort_key)
        self._keys = [sort_key(path) for path in self._sorted]

    def run(self) -> None:
        deletions = self._job.plan.deletions
        self._meter.phase("swap", files=len(self._loose) + len(deletions))
        self._meter.commit()
        self._clean_leftovers()
        for path in self._sorted:
            if self._loose[path].is_directory:
                self._make_directory(path)
                self._meter.add(0, 1)
        self._place_all()
        for path in deletions:
            if path not in self._job.grafted:
                remove_path(self._job, path)
            self._meter.add(0, 1)
        self._job.tree.forget()
        self._meter.finish()

    def _clean_leftovers(self) -> None:
        """Unfinished names of a run that was killed."""
        stage = os.fsencode(self._job.stage.path.name)
        for path in self._job.live.leftovers:
            directory, name = split_path(path)
            if name != stage:
                remove_tree(self._job.tree.cached_directory(directory), name)

    # Directories

    def _make_directory(self, path: bytes) -> None:
        if path in self._done:
            return
        self._done.add(path)
        is_branch = path in self._job.plan.branches.roots
        self._reported(path, self._move_branch if is_branch else self._create_directory)

    def _move_branch(self, path: bytes) -> None:
        move_branch(self._job, path)
        self._job.step("branch")

    def _reported(self, path: bytes, action: Callable[[bytes], None]) -> None:
        """What the machine holds on to is left, with a warning: one bad file stops no restore."""
        job = self._job
        if is_below(path, job.kept_directories):
            return
        try:
            action(path)
        except OSError as error:
            if error.errno not in HELD:
                raise
            job.warnings.add("not_replaced", path, error)
            if job.plan.want[path].is_directory:
                job.kept_directories.add(path)

    def _create_directory(self, path: bytes) -> None:
        entry = self._job.plan.want[path]
        parent, name = split_path(path)
        fd = self._job.tree.cached_directory(parent)
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            self._new_directory(fd, name, entry)
            return
        if stat.S_ISDIR(status.st_mode):
            return
        if entry.bits & BARE:
            self._job.warnings.add("not_a_directory", path, "left as the machine has it")
            return
        # Not the cached fd: filling the directory opens many others.
        with self._job.tree.directory(parent) as own:
            self._convert_to_directory(path, own, name)

    def _new_directory(self, fd: int, name: bytes, entry: Entry) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=fd)
        except OSError as error:
            if error.errno not in HELD:
                raise
            unlock(fd)
            os.mkdir(name, 0o700, dir_fd=fd)
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        try:
            self._job.metadata.apply_fd(directory, _without_xattrs(entry))
        finally:
            os.close(directory)
        self._job.step("mkdir")

    def _convert_to_directory(self, path: bytes, fd: int, name: bytes) -> None:
        """A symlink or file stands where a directory belongs: fill one beside it, then exchange.

        So /bin is complete at every moment, first as a symlink, then as a directory.
        """
        job = self._job
        temporary = temporary_name(path)
        remove_tree(fd, temporary)
        self._new_directory(fd, temporary, job.plan.want[path])
        parent = split_path(path)[0]
        job.tree.aliases[path] = parent + b"/" + temporary if parent else temporary
        try:
            self._fill(path)
        finally:
            job.tree.aliases.pop(path)
        try:
            posix.rename_exchange(fd, temporary, name)
        except OSError as error:
            if error.errno not in _NO_EXCHANGE:
                raise
            remove_name(fd, name)
            os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
        remove_tree(fd, temporary)
        job.step("convert")

    def _fill(self, directory: bytes) -> None:
        prefix = sort_key(directory) + b"\0"
        first = bisect_left(self._keys, prefix)
        below = []
        for i in range(first, len(self._keys)):
            if not self._keys[i].startswith(prefix):
                break
            below.append(self._sorted[i])
        for path in below:
            if self._loose[path].is_directory:
                self._make_directory(path)
        for path in below:
            self._place(path)

    # Everything else

    def _place_all(self) -> None:
        loose = self._loose
        paths = [path for path, entry in loose.items() if not entry.is_directory]
        paths.sort(key=lambda p: (rank(p.rpartition(b"/")[2]), not loose[p].is_regular, p))
        for path in paths:
            self._place(path)
            self._meter.add(0, 1)
        # Directories that become symlinks: only when their content is at its new place.
        while self._late:
            self._reported(self._late.pop(0), self._replace_directory)

    def _place(self, path: bytes) -> None:
        if path in self._done or path not in self._loose:
            return
        if self._job.live.has_directory(path):
            self._late.append(path)
            self._done.add(path)
            return
        self._done.add(path)
        self._reported(path, self._put)

    def _place_now(self, path: bytes) -> None:
        """Place a path also if it would have come late: others are linked to it."""
        self._place(path)
        if path in self._late:
            self._late.remove(path)
            self._reported(path, self._replace_directory)
        held = "not_replaced" in self._job.warnings.paths.get(path, ())
        if held or is_below(path, self._job.kept_directories):
            raise PermissionError(errno.EPERM, "its first name could not be written", path)

    def _put(self, path: bytes) -> None:
        """Make the new thing under another name or in the stage, then rename it over the old."""
        job = self._job
        parent, name = split_path(path)
        fd = job.tree.cached_directory(parent)
        try:
            source_fd, source = self._source(job.plan.want[path], fd)
        except OSError as error:
            if error.errno not in HELD:
                raise
            unlock(fd)
            source_fd, source = self._source(job.plan.want[path], fd)
        fd = job.tree.cached_directory(parent)
        replace(job, path, (source_fd, source), (fd, name))
        job.step("place")

    def _source(self, entry: Entry, fd: int) -> tuple[int, bytes]:
        """(directory fd, name) of the new thing, complete with its metadata."""
        plan = self._job.plan
        leader = plan.leader_of(entry)
        if leader == entry.path and entry.is_regular:
            return self._job.stage.fd, staged_name(entry.path)
        temporary = temporary_name(entry.path)
        remove_tree(fd, temporary)
        if leader != entry.path:
            self._place_now(leader)
            directory, name = split_path(leader)
            source = self._job.tree.cached_directory(directory)
            # The leader's directory may have pushed ours out of the cache of open ones.
            fd = self._job.tree.cached_directory(entry.parent)
            os.link(name, temporary, src_dir_fd=source, dst_dir_fd=fd, follow_symlinks=False)
            return fd, temporary
        if entry.is_symlink:
            os.symlink(entry.target, temporary, dir_fd=fd)
        elif not make_node(self._job.metadata, entry, fd, temporary):
            return fd, temporary
        outside = self._job.tree.outside_path(fd, entry.parent, temporary)
        self._job.metadata.apply_name((fd, temporary), entry, outside)
        return fd, temporary

    def _replace_directory(self, path: bytes) -> None:
        """A directory stands where a file or symlink belongs (a split /bin becoming a symlink)."""
        job = self._job
        held = protected_inside(job, path)
        if held is not None:
            job.kept_directories.add(path)
            job.warnings.add("directory_kept", path, f"it holds {display(held)}")
            if job.plan.want[path].is_symlink:
                graft(job, job.plan.want[path])
            return
        fd = job.tree.cached_directory(split_path(path)[0])
        source_fd, source = self._source(job.plan.want[path], fd)
        job.tree.forget()
        fd = job.tree.cached_directory(split_path(path)[0])
        name = split_path(path)[1]
        if source_fd == job.stage.fd:
            temporary = temporary_name(path)
            move(job, path, (source_fd, source), (fd, temporary))
            source = temporary
        try:
            posix.rename_exchange(fd, source, name)
        except OSError as error:
            # An overlay cannot move a directory of its lower layer.
            if error.errno not in _NO_EXCHANGE:
                raise
            remove_tree(fd, name)
            os.rename(source, name, src_dir_fd=fd, dst_dir_fd=fd)
        else:
            remove_tree(fd, source)
        job.step("replace")


def _without_xattrs(entry: Entry) -> Entry:
    """For a new directory: a default ACL would leak onto what is made in it."""
    return Entry(
        entry.path,
        entry.mode | (0o700 if os.geteuid() else 0),
        entry.uid,
        entry.gid,
        mtime_ns=entry.mtime_ns,
        bits=entry.bits & ~UNREADABLE,
    )
