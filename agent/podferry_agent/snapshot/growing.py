"""Makes the directories of branches, and what is in them besides files with content."""

import os
import stat
from collections.abc import Callable, Collection
from dataclasses import replace

from podferry_agent.snapshot.branches import Branches
from podferry_agent.snapshot.metadata import MetadataWriter
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.nodes import make_node
from podferry_agent.snapshot.plan import Action, Plan
from podferry_agent.snapshot.stage import StageDirectory
from podferry_agent.snapshot.tree import OPEN_DIRECTORY


class BranchMaker:
    """Builds the branches of one plan in the stage."""

    def __init__(
        self,
        stage: StageDirectory,
        plan: Plan,
        metadata: MetadataWriter,
        step: Callable[[str], None],
    ) -> None:
        self._stage = stage
        self._plan = plan
        self._metadata = metadata
        self._step = step
        self._finished_early: set[bytes] = set()  # places whose rights are right from the start

    def make_directories(self, leftovers: Collection[bytes]) -> None:
        """Parents first. A default ACL comes last, so that it does not leak onto what is inside."""
        want = self._plan.want
        for path, place in self._plan.branches.directories.items():
            if place in leftovers:
                continue
            entry = want[path]
            is_plain = self._is_plain(entry)
            os.mkdir(place, entry.mode & 0o777 if is_plain else 0o700, dir_fd=self._stage.fd)
            if is_plain:
                self._finished_early.add(place)
            self._step("stage")

    def fill(self, lost: Collection[bytes]) -> None:
        """Links, symlinks and special files; what cannot be made here is made in the swap."""
        branches = self._plan.branches
        if not branches.directories:
            return
        for entry in self._plan.to_make():
            path = entry.path
            if path in branches.directories or not branches.has(path):
                continue
            if self._plan.leader_of(entry) == path and stat.S_ISREG(entry.mode):
                continue
            if not self._is_made(entry, branches, lost):
                branches.late.add(path)
            self._step("stage")

    def finish_directories(self) -> None:
        """Owner, attributes, rights and time, deepest first: nothing changes in them any more."""
        branches = self._plan.branches
        for path, place in reversed(branches.directories.items()):
            entry = self._plan.want[path]
            if place in self._finished_early:
                self._metadata.set_time_of_name(self._stage.fd, place, entry)
                continue
            if path in branches.roots and os.geteuid():
                # Only who may write to a directory can move it; the last pass takes that back.
                entry = replace(entry, mode=entry.mode | 0o700)
            fd = os.open(place, OPEN_DIRECTORY, dir_fd=self._stage.fd)
            try:
                self._metadata.apply_fd(fd, entry)
            finally:
                os.close(fd)

    def _is_plain(self, entry: Entry) -> bool:
        """Whether a new directory of that mode needs nothing but its time."""
        defaults = self._stage.defaults
        has_own_mode = (entry.mode & 0o7777 | 0o700) == entry.mode & 0o7777 & ~defaults.lost_mode
        has_own_owner = (entry.uid, entry.gid) == (defaults.uid, defaults.gid)
        return has_own_mode and has_own_owner and not entry.xattrs

    def _is_made(self, entry: Entry, branches: Branches, lost: Collection[bytes]) -> bool:
        place, fd = branches.place_of(entry.path), self._stage.fd
        leader = self._plan.leader_of(entry)
        try:
            if leader != entry.path:
                return self._is_linked(leader, place, lost)
            if entry.is_symlink:
                os.symlink(entry.target, place, dir_fd=fd)
            elif not make_node(self._metadata, entry, fd, place):
                return True
        except OSError:
            return False  # the swap tries again, and says what is wrong
        outside = self._stage.outside_path(place)
        self._metadata.apply_name((fd, place), entry, outside, is_new=True)
        return True

    def _is_linked(self, leader: bytes, place: bytes, lost: Collection[bytes]) -> bool:
        plan = self._plan
        is_staged = plan.actions[leader] is Action.MAKE and (
            plan.want[leader].is_regular or plan.branches.has(leader)
        )
        if not is_staged or leader in lost:
            return False
        source, fd = plan.branches.place_of(leader), self._stage.fd
        os.link(source, place, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
        return True
