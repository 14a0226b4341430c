"""Settles the SQLite databases of a live tree, each as one unit with the files beside it."""

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from podferry_agent.snapshot.databases import (
    BESIDE,
    JOURNAL,
    MAGIC,
    SHM,
    WAL,
    NotCopiedError,
    base_of,
    copied,
    has_wal,
)
from podferry_agent.snapshot.listings import ctime_ns_of
from podferry_agent.snapshot.livetools import LiveTools, forget_content
from podferry_agent.snapshot.model import TORN, UNREADABLE, VANISHED, display
from podferry_agent.snapshot.openfiles import Holders, holders_of
from podferry_agent.snapshot.tree import VANISHED_ERRNOS
from podferry_agent.snapshot.walk import Node
from podferry_agent.snapshot.watch import TICK_NS

_ATTEMPTS = 3


@dataclass
class Group:
    """A database and what is beside it, by suffix."""

    base: Node
    beside: dict[bytes, Node]
    header: bytes

    @property
    def members(self) -> list[Node]:
        """What holds the content, base first. The -shm file is an index that SQLite rebuilds."""
        return [self.base, *(self.beside[s] for s in (WAL, JOURNAL) if s in self.beside)]

    @property
    def can_be_copied(self) -> bool:
        """Opening a database with a WAL makes a -shm file, and we write nothing there."""
        return not has_wal(self.header) or SHM in self.beside


def _content_facts(node: Node) -> tuple[int, ...]:
    return (*node.inode, node.entry.size, node.entry.mtime_ns)


class DatabaseGroups:
    """All databases that have changed, or have something changed beside them."""

    def __init__(self, tools: LiveTools) -> None:
        self.added: list[Node] = []  # stored though the walk did not yield them as changed
        self.copies: set[bytes] = set()  # stored as the copy that SQLite made
        self.others: set[bytes] = set()  # stored as they are
        self._tools = tools
        self._yielded: dict[bytes, Node] = {}

    def settle(self) -> None:
        watch = self._tools.watch
        bases = self._bases()
        watch.settles_databases = True
        groups = [group for base in bases.values() if (group := self._group(base))]
        members = [node for group in groups for node in group.members]
        holders = holders_of(node.inode for node in members)
        for group in groups:
            self._tools.reader.guarded(group.base, partial(self._settle, group, holders))
            if group.base.entry.bits & (VANISHED | UNREADABLE):
                self._drop(*group.beside.values())

    def _bases(self) -> dict[bytes, Node]:
        """The databases to settle. What only has the name of something beside one is read."""
        watch, tools = self._tools.watch, self._tools
        self._yielded = {node.entry.path: node for node in watch.beside_databases}
        bases = {node.entry.path: node for node in watch.databases}
        for path, node in list(self._yielded.items()):
            base = base_of(path) or b""
            if base in bases:
                continue
            unchanged = self._unchanged_base(base)
            if unchanged:
                bases[base] = unchanged
            else:
                del self._yielded[path]
                tools.read_again(node)
        yielded = {node.entry.path: node for node in watch.databases}
        self._yielded.update(yielded)
        return {**bases, **yielded}

    def _unchanged_base(self, path: bytes) -> Node | None:
        """The database at a path that the walk did not yield; None if the tree has none there."""
        if self._tools.parent.good_entry(path) is None:
            return None
        node = self._tools.look(path)
        return node if node and self._header(node)[: len(MAGIC)] == MAGIC else None

    def _group(self, base: Node) -> Group | None:
        """None if no content has changed: then what the parent has is right."""
        path = base.entry.path
        beside = {}
        for suffix in BESIDE:
            node = self._yielded.get(path + suffix) or self._tools.look(path + suffix)
            if node:
                beside[suffix] = node
        group = Group(base, beside, self._header(base))
        if any(node.entry.path in self._yielded for node in group.members):
            return group
        self._drop_index(group)
        return None

    def _header(self, node: Node) -> bytes:
        header = b""

        def read(node: Node) -> bool:
            nonlocal header
            with self._tools.opened(node) as fd:
                header = os.pread(fd, 100, 0)
            return True

        self._tools.reader.guarded(node, read)
        return header

    def _settle(self, group: Group, holders: Holders, _base: Node) -> bool:
        is_open = holders.has_open({node.inode for node in group.members})
        if not (is_open and group.can_be_copied) and self._is_read_as_it_is(group):
            return True
        if group.can_be_copied and self._is_copied(group):
            return True
        if not self._is_read_at_rest(group):
            self._keep(group)
        return True

    def _is_copied(self, group: Group) -> bool:
        tools, base = self._tools, group.base
        path = base.entry.path
        written_ns = max(node.entry.mtime_ns for node in group.members)
        room = sum(node.entry.size for node in group.members)
        wal = has_wal(group.header)
        breathe = tools.pace.breathe
        source = tools.watch.absolute(path)
        try:
            with (
                copied(source, tools.directory, room, wal=wal, breathe=breathe) as copy,
                tools.opened(base) as fd,
            ):
                forget_content(base)
                tools.reader.read_copy(base, fd, copy, tools.workers)
        except NotCopiedError as error:
            tools.warnings.append(f"{display(path)}: no SQLite copy could be made: {error}")
            return False
        base.entry.mtime_ns = written_ns
        for node in group.beside.values():
            self._excuse(node)
        self.copies.add(path)
        self._store(base)
        self._drop(*group.beside.values())
        return True

    def _excuse(self, node: Node) -> None:
        """SQLite, run by root, gives a WAL its owner again when it opens it: no change."""
        found = self._tools.look(node.entry.path)
        if found and _content_facts(found) == _content_facts(node):
            node.row, node.is_excused = found.row, True

    def _is_read_as_it_is(self, group: Group) -> bool:
        """Whether nothing moved while all its files were read."""
        for _ in range(_ATTEMPTS):
            began_ns, before = time.time_ns(), self._rows(group)
            for node in group.members:
                self._tools.read_again(node)
            is_torn = any(node.entry.bits & TORN for node in group.members)
            if not is_torn and before == self._rows(group):
                if all(ctime_ns_of(row) < began_ns - TICK_NS for row in before):
                    return self._take(group)
                time.sleep(TICK_NS / 1e9)
        return False

    def _rows(self, group: Group) -> list[bytes]:
        """Of all its names that exist: what tells if they change."""
        base = group.base.entry.path
        found = [self._tools.look(base + suffix) for suffix in (b"", *BESIDE)]
        return [node.row for node in found if node]

    def _is_read_at_rest(self, group: Group) -> bool:
        members = group.members
        try:
            with ExitStack() as stack:
                fds = [stack.enter_context(self._tools.opened(node)) for node in members]
                copies = self._tools.copier.copies(fds, stack)
                if copies is None:
                    return False
                for node, fd, copy in zip(members, fds, copies, strict=True):
                    forget_content(node)
                    self._tools.reader.read_copy(node, fd, copy, self._tools.workers)
                    node.is_doubtful = True
        except OSError as error:
            if error.errno in VANISHED_ERRNOS:
                return False
            raise
        return self._take(group)

    def _take(self, group: Group) -> bool:
        self.others.add(group.base.entry.path)
        for node in group.members:
            self._store(node)
        self._drop_index(group)
        return True

    def _keep(self, group: Group) -> None:
        """All of it as the parent has it: a database and a WAL of two moments are no database."""
        parent = self._tools.parent
        has_previous = parent.good_entry(group.base.entry.path) is not None
        for node in group.members:
            if has_previous and parent.good_entry(node.entry.path) is None:
                self._drop(node)
            else:
                self._tools.keep_previous(node)
                self._store(node)
        self._drop_index(group)

    def _store(self, node: Node) -> None:
        if node.entry.path not in self._yielded:
            self.added.append(node)

    def _drop_index(self, group: Group) -> None:
        if SHM in group.beside:
            self._drop(group.beside[SHM])

    def _drop(self, *nodes: Node) -> None:
        """Not in this snapshot; a restore deletes it, so that it is not paired with another."""
        for node in nodes:
            if node.entry.path in self._yielded:
                node.entry.bits |= VANISHED
            else:
                self._tools.report.removed.append(node.entry.path)
