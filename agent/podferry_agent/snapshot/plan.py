"""Compares a snapshot with the live tree, by content, and decides what has to be done."""

import os
import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby

from podferry_agent.snapshot.chunks import ChunkTable
from podferry_agent.snapshot.compare import has_content, metadata_changes, same_type
from podferry_agent.snapshot.describe import describe_file
from podferry_agent.snapshot.live import LiveTree
from podferry_agent.snapshot.model import BARE, UNREADABLE, Entry, RestoreSpec, is_below
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.rules import Rules, Verdict
from podferry_agent.snapshot.tree import Tree
from podferry_agent.snapshot.walk import Node
from podferry_agent.snapshot.warning import Warnings

_COMPARE_BATCH = 64


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

    def leader_of(self, entry: Entry) -> bytes:
        return self.leaders.get(entry.link, entry.path)

    def staged(self) -> list[Entry]:
        """Regular files whose content has to be fetched."""
        return [
            entry
            for path, entry in self.want.items()
            if entry.is_regular
            and self.actions[path] is Action.MAKE
            and self.leader_of(entry) == path
        ]


class Planner:
    """Makes the plan of one restore."""

    def __init__(
        self, spec: RestoreSpec, tree: Tree, rules: Rules, table: ChunkTable, meter: Meter
    ) -> None:
        self._spec = spec
        self._tree = tree
        self._rules = rules
        self._table = table
        self._meter = meter

    def plan(self, entries: Iterable[Entry], live: LiveTree, warnings: Warnings) -> Plan:
        plan = Plan(self._wanted(entries))
        for path, entry in plan.want.items():
            if entry.link:
                plan.leaders.setdefault(entry.link, path)
        self._decide(plan, live, warnings)
        plan.deletions = _deletions(plan, live)
        return plan

    def _wanted(self, entries: Iterable[Entry]) -> dict[bytes, Entry]:
        """Entries without those that belong to this machine, whatever they were elsewhere."""
        want = {}
        prefix = self._spec.pod_prefix
        for entry in entries:
            path = entry.path
            if path:
                verdict = self._rules.judge(prefix + b"/" + path, directory=entry.is_directory)
                if verdict is Verdict.MACHINE:
                    continue
                if verdict is Verdict.BARE:
                    entry.bits |= BARE
            want[path] = entry
        return want

    def _decide(self, plan: Plan, live: LiveTree, warnings: Warnings) -> None:
        to_compare: list[tuple[Entry, Node]] = []
        claimed: set[tuple[int, int]] = set()
        for path, entry in plan.want.items():
            node = live.nodes.get(path)
            plan.actions[path] = action = self._first_guess(plan, entry, node, live)
            if entry.bits & UNREADABLE and entry.is_regular:
                warnings.add("unreadable_at_capture", path, "its content is not in the snapshot")
            if action is Action.KEEP and node and entry.is_regular and not entry.bits & UNREADABLE:
                inode = (node.dev, node.ino)
                # Two files of the snapshot that are one inode here have to be parted.
                if node.nlink > 1 and inode in claimed:
                    plan.actions[path] = Action.MAKE
                    continue
                claimed.add(inode)
                to_compare.append((entry, node))
        self._compare(plan, live, to_compare)
        self._follow_leaders(plan, live)

    def _first_guess(self, plan: Plan, entry: Entry, node: Node | None, live: LiveTree) -> Action:
        if entry.is_regular and entry.bits & UNREADABLE:
            return Action.LEAVE
        if node is None or not same_type(entry, node.entry):
            return Action.MAKE
        if entry.is_directory:
            return Action.LEAVE if entry.bits & BARE else Action.FIX
        if entry.is_regular:
            is_candidate = plan.leader_of(entry) == entry.path and node.entry.size == entry.size
            return Action.KEEP if is_candidate else Action.MAKE
        return _guess_special(entry, node, live)

    def _compare(self, plan: Plan, live: LiveTree, work: list[tuple[Entry, Node]]) -> None:
        self._meter.phase("compare", sum(e.size for e, _ in work), len(work))
        batches = [work[i : i + _COMPARE_BATCH] for i in range(0, len(work), _COMPARE_BATCH)]
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1), "pf-compare") as pool:
            for results in pool.map(self._compare_batch, batches):
                for (entry, node), action in results:
                    names = live.inodes.get((node.dev, node.ino), [entry.path])
                    # An inode with a name out of reach: its metadata is not ours alone to change.
                    must_part = action is Action.FIX and len(names) < node.nlink
                    plan.actions[entry.path] = Action.MAKE if must_part else action
        self._meter.finish()

    def _compare_batch(
        self, batch: list[tuple[Entry, Node]]
    ) -> list[tuple[tuple[Entry, Node], Action]]:
        results = []
        for parent, rows in groupby(batch, lambda row: row[0].parent):
            group = list(rows)
            try:
                with self._tree.directory(parent) as directory:
                    results += [(row, self._compare_file(directory, *row)) for row in group]
            except OSError:
                results += [(row, Action.MAKE) for row in group]
        self._meter.add(sum(entry.size for entry, _ in batch), len(batch))
        return results

    def _compare_file(self, directory: int, entry: Entry, node: Node) -> Action:
        try:
            fd = self._tree.open_file(directory, entry.name)
        except OSError:
            return Action.MAKE
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                return Action.MAKE
            describe_file(node, fd, status)
            if not same_type(entry, node.entry):
                return Action.MAKE
            if status.st_size != entry.size or not has_content(
                fd, entry, self._table, self._spec.chunk_key, exact_holes=True
            ):
                return Action.MAKE
        except OSError:
            return Action.MAKE
        finally:
            os.close(fd)
        return Action.FIX if metadata_changes(entry, node.entry) else Action.KEEP

    def _follow_leaders(self, plan: Plan, live: LiveTree) -> None:
        """A further name of an inode is right if it is the leader's inode and that is kept."""
        for path, entry in plan.want.items():
            leader = plan.leader_of(entry)
            if leader == path or plan.actions[path] is Action.LEAVE:
                continue
            here, there = live.nodes.get(path), live.nodes.get(leader)
            same = here and there and (here.dev, here.ino) == (there.dev, there.ino)
            kept = plan.actions[leader] in (Action.KEEP, Action.FIX)
            plan.actions[path] = Action.KEEP if same and kept else Action.MAKE


def _guess_special(entry: Entry, node: Node, live: LiveTree) -> Action:
    changes = set(metadata_changes(entry, node.entry))
    if changes & {"target", "node"}:
        return Action.MAKE
    if not changes:
        return Action.KEEP
    shared = node.nlink > 1 and live.inodes.get((node.dev, node.ino)) != [entry.path]
    return Action.MAKE if shared else Action.FIX


def _deletions(plan: Plan, live: LiveTree) -> list[bytes]:
    """What is here and not in the snapshot; the walk took only what a capture would have taken."""
    unknown = {p for p, e in plan.want.items() if e.is_directory and e.bits & UNREADABLE}
    return [
        path
        for path, node in reversed(live.nodes.items())
        if path not in plan.want
        and not node.entry.bits & BARE
        and not is_below(_parent(path), unknown)
    ]


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]
