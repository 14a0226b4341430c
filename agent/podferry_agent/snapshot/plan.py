"""Compares a snapshot with the live tree, by content, and decides what has to be done."""

import os
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.branches import Branches
from podferry_agent.snapshot.chunks import ChunkTable, chunk_id
from podferry_agent.snapshot.compare import (
    has_content,
    is_one_chunk,
    metadata_changes,
    same_status,
    same_type,
    small_buffer,
)
from podferry_agent.snapshot.cutting import SINGLE_CHUNK
from podferry_agent.snapshot.found import open_entry
from podferry_agent.snapshot.listings import row_of
from podferry_agent.snapshot.live import LiveTree
from podferry_agent.snapshot.model import BARE, UNREADABLE, Entry, RestoreSpec, is_below
from podferry_agent.snapshot.native import helper
from podferry_agent.snapshot.plain import Ahead
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.rules import Rules, Verdict
from podferry_agent.snapshot.scanning import FileStatus
from podferry_agent.snapshot.tree import Tree
from podferry_agent.snapshot.warning import Warnings
from podferry_agent.snapshot.xattrs import read_xattrs

_COMPARE_BATCH = 64
Row = tuple[Entry, FileStatus]


class Action(Enum):
    KEEP = "keep"  # right as it is
    FIX = "fix"  # only metadata differs
    MAKE = "make"  # has to be written, linked or made anew
    LEAVE = "leave"  # not ours to write: its content is unknown, or the machine has it


@dataclass
class Plan:
    """What a restore will do with each path."""

    want: dict[bytes, Entry]
    actions: dict[bytes, Action] = field(default_factory=dict)
    leaders: dict[bytes, bytes] = field(default_factory=dict)  # link group -> path with content
    deletions: list[bytes] = field(default_factory=list)  # children before their directory
    branches: Branches = field(default_factory=Branches)

    def leader_of(self, entry: Entry) -> bytes:
        return self.leaders.get(entry.link, entry.path) if entry.link else entry.path

    def to_make(self) -> list[Entry]:
        actions = self.actions
        return [entry for path, entry in self.want.items() if actions[path] is Action.MAKE]

    def new_directories(self, live: LiveTree) -> list[bytes]:
        """Directories to make where the walk met nothing; parents first."""
        return [
            entry.path
            for entry in self.to_make()
            if stat.S_ISDIR(entry.mode) and entry.path not in live.nodes
        ]

    def staged(self) -> list[Entry]:
        """Regular files whose content has to be fetched."""
        return [
            entry
            for entry in self.to_make()
            if stat.S_ISREG(entry.mode) and self.leader_of(entry) == entry.path
        ]

    def loose(self) -> list[Entry]:
        """What has to be put in its place by itself, and not as a part of a branch."""
        return [entry for entry in self.to_make() if not self.branches.has(entry.path)]


def wanted(spec: RestoreSpec, rules: Rules, entries: Iterable[Entry]) -> dict[bytes, Entry]:
    """Entries without those that belong to this machine, whatever they were elsewhere."""
    want = {}
    prefix = spec.pod_prefix + b"/"
    judge = rules.judge
    for entry in entries:
        path = entry.path
        if path:
            verdict = judge(prefix + path, directory=stat.S_ISDIR(entry.mode))
            if verdict is Verdict.MACHINE:
                continue
            if verdict is Verdict.BARE:
                entry.bits |= BARE
        want[path] = entry
    return want


class Planner:
    """Makes the plan of one restore."""

    def __init__(self, spec: RestoreSpec, tree: Tree, table: ChunkTable, meter: Meter) -> None:
        self._spec = spec
        self._tree = tree
        self._table = table
        self._meter = meter

    def plan(self, want: dict[bytes, Entry], live: LiveTree, warnings: Warnings) -> Plan:
        plan = Plan(want)
        for path, entry in want.items():
            if entry.link:
                plan.leaders.setdefault(entry.link, path)
        self._decide(plan, live, warnings)
        plan.deletions = _deletions(plan, live)
        return plan

    def _decide(self, plan: Plan, live: LiveTree, warnings: Warnings) -> None:
        actions, nodes = plan.actions, live.nodes
        to_compare: list[Row] = []
        claimed: set[tuple[int, int]] = set()
        for path, entry in plan.want.items():
            status = nodes.get(path)
            if stat.S_ISREG(entry.mode) and entry.bits & UNREADABLE:
                actions[path] = Action.LEAVE
                warnings.add("unreadable_at_capture", path, "its content is not in the snapshot")
            elif status is None or not same_type(entry, status.st_mode):
                actions[path] = Action.MAKE
            elif stat.S_ISDIR(entry.mode):
                actions[path] = _guess_directory(entry, status, live)
            else:
                actions[path] = self._guess_file(plan, (entry, status), live, claimed)
                if stat.S_ISREG(entry.mode) and actions[path] is Action.KEEP:
                    to_compare.append((entry, status))
        self._compare(plan, live, to_compare)
        self._follow_leaders(plan, live)

    def _guess_file(
        self, plan: Plan, row: Row, live: LiveTree, claimed: set[tuple[int, int]]
    ) -> Action:
        entry, status = row
        if entry.link and plan.leader_of(entry) != entry.path:
            return Action.MAKE  # the leader decides, later
        if stat.S_ISREG(entry.mode):
            action = Action.KEEP if status.st_size == entry.size else Action.MAKE
        else:
            action = _guess_special(entry, status, live)
        if action is Action.MAKE or status.st_nlink == 1:
            return action
        inode = (status.st_dev, status.st_ino)
        # Two inodes of the snapshot that are one here have to be parted.
        if inode in claimed:
            return Action.MAKE
        claimed.add(inode)
        return action

    def _compare(self, plan: Plan, live: LiveTree, work: list[Row]) -> None:
        """Hash what could be right: every byte, however right its size and time are."""
        self._meter.phase("compare", sum(e.size for e, _ in work), len(work))
        for rows, actions in self._compared(work):
            for (entry, status), action in zip(rows, actions, strict=True):
                if action is Action.KEEP:
                    continue  # as was guessed
                must_part = (
                    action is Action.FIX
                    and status.st_nlink > 1
                    # A name out of reach: its metadata is not ours alone to change.
                    and len(live.inodes[status.st_dev, status.st_ino]) < status.st_nlink
                )
                plan.actions[entry.path] = Action.MAKE if must_part else action
        self._meter.finish()

    def _compared(self, work: list[Row]) -> Iterator[tuple[list[Row], list[Action]]]:
        """By two groups of threads: small files are interpreter work, big ones are not.

        With more at small files they only pass the interpreter's lock to each other.
        """
        small = [row for row in work if row[0].size <= SINGLE_CHUNK]
        big = [[[row]] for row in work if row[0].size > SINGLE_CHUNK]
        processors = min(8, os.cpu_count() or 1)
        at_small = max(1, processors // 2)
        with (
            ThreadPoolExecutor(at_small, "pf-small") as small_pool,
            ThreadPoolExecutor(max(1, processors - at_small), "pf-big") as big_pool,
        ):
            of_small = small_pool.map(self._compare_batch, _batches(small))
            yield from big_pool.map(self._compare_batch, big)
            yield from of_small

    def _compare_batch(self, directories: list[list[Row]]) -> tuple[list[Row], list[Action]]:
        rows: list[Row] = []
        actions: list[Action] = []
        for group in directories:
            rows += group
            try:
                parent = group[0][0].parent
                start = len(parent) + 1 if parent else 0
                with self._tree.directory(parent) as fd:
                    self._compare_group(fd, start, group, actions)
            except OSError:
                actions += [Action.MAKE] * (len(rows) - len(actions))
        self._meter.add(sum(entry.size for entry, _ in rows), len(rows))
        return rows, actions

    def _compare_group(
        self, directory: int, start: int, group: list[Row], actions: list[Action]
    ) -> None:
        """Files of one directory: most are plain, each other one by itself, all in their order."""
        done, ahead = 0, Ahead()
        while done < len(group):
            count = ahead.take(entry.size for entry, _ in islice(group, done, None))
            rows = group[done : done + count]
            found = self._compare_plain(directory, start, rows)
            actions += found
            is_odd = len(found) < len(rows)
            if is_odd:
                entry, status = rows[len(found)]
                actions.append(self._compare_file(directory, entry.path[start:], (entry, status)))
            done += len(found) + is_odd
            ahead.note(is_odd=is_odd)

    def _compare_plain(self, directory: int, start: int, rows: list[Row]) -> list[Action]:
        """By the compiled helper, up to the first file that needs more than one look."""
        native, found = helper(), list[Action]()
        if native is None or any(entry.size > SINGLE_CHUNK for entry, _ in rows):
            return found
        files = [(entry.path[start:], row_of(status)) for entry, status in rows]
        buffer, at = small_buffer(), 0
        read = native.read_plain(directory, files, buffer, exact_holes=True)
        for (entry, status), facts in zip(rows, read, strict=False):
            is_simple = is_one_chunk(entry, self._table) or not (entry.size or entry.refs)
            if facts[-1] or entry.flags or entry.xattrs or not is_simple:
                break
            content = buffer[at : at + entry.size]
            if entry.size and not self._is_chunk(content, entry.refs[1]):
                found.append(Action.MAKE)
            else:
                found.append(Action.KEEP if same_status(entry, status) else Action.FIX)
            at += entry.size
        return found

    def _is_chunk(self, content: memoryview, chunk: int) -> bool:
        return chunk_id(content, self._spec.chunk_key) == self._table.ids[chunk]

    def _compare_file(self, directory: int, name: bytes, row: Row) -> Action:
        entry, status = row
        try:
            fd = self._tree.open_file(directory, name)
        except OSError:
            return Action.MAKE
        try:
            key = self._spec.chunk_key
            if not has_content(fd, entry, self._table, key, exact_holes=True):
                return Action.MAKE
            return _compare_metadata(entry, status, fd)
        except OSError:
            return Action.MAKE
        finally:
            os.close(fd)

    def _follow_leaders(self, plan: Plan, live: LiveTree) -> None:
        """A further name of an inode is right if it is the leader's inode and that is kept."""
        for path, entry in plan.want.items():
            if not entry.link:
                continue
            leader = plan.leader_of(entry)
            if leader == path or plan.actions[path] is Action.LEAVE:
                continue
            here, there = live.nodes.get(path), live.nodes.get(leader)
            same = here and there and (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
            kept = plan.actions[leader] in (Action.KEEP, Action.FIX)
            plan.actions[path] = Action.KEEP if same and kept else Action.MAKE


def _batches(work: list[Row]) -> list[list[list[Row]]]:
    """Groups of files of one directory, so many together that a thread has something to do."""
    groups: dict[bytes, list[Row]] = {}
    for row in work:
        groups.setdefault(_parent(row[0].path), []).append(row)
    batches: list[list[list[Row]]] = []
    room = 0
    for group in groups.values():
        if room <= 0:
            batches.append([])
            room = _COMPARE_BATCH
        batches[-1].append(group)
        room -= len(group)
    return batches


def _compare_metadata(entry: Entry, status: FileStatus, fd: int) -> Action:
    """For an open file of the right content. Attributes and flags are not in its status."""
    is_plain = not (entry.xattrs or entry.flags or read_xattrs(fd) or posix.get_flags(fd))
    if is_plain:
        return Action.KEEP if same_status(entry, status) else Action.FIX
    found = open_entry(entry.path, fd, os.fstat(fd))
    if not found.is_regular:  # it stands for a device
        return Action.MAKE
    return Action.FIX if metadata_changes(entry, found) else Action.KEEP


def _guess_directory(entry: Entry, status: FileStatus, live: LiveTree) -> Action:
    if entry.bits & BARE:
        return Action.LEAVE
    found = live.described.get(entry.path)
    if found is not None:
        return Action.FIX if metadata_changes(entry, found) else Action.KEEP
    is_right = same_status(entry, status) and not entry.xattrs and not entry.flags
    return Action.KEEP if is_right else Action.FIX


def _guess_special(entry: Entry, status: FileStatus, live: LiveTree) -> Action:
    found = live.described.get(entry.path)
    changes = set(metadata_changes(entry, found)) if found else {"target"}
    if changes & {"target", "node"}:
        return Action.MAKE
    if not changes:
        return Action.KEEP
    shared = status.st_nlink > 1 and live.inodes[status.st_dev, status.st_ino] != [entry.path]
    return Action.MAKE if shared else Action.FIX


def _deletions(plan: Plan, live: LiveTree) -> list[bytes]:
    """What is here and not in the snapshot; the walk took only what a capture would have taken."""
    want, bare = plan.want, live.bare
    unknown = {p for p, e in want.items() if e.bits & UNREADABLE and e.is_directory}
    return [
        path
        for path in reversed(live.nodes)
        if path not in want and path not in bare and not is_below(_parent(path), unknown)
    ]


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]
