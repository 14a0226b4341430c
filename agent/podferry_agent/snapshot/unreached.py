"""What a hurried capture did not get to: it keeps the content of the parent, or is left out."""

import stat
from collections.abc import Iterable

from podferry_agent.snapshot.chunks import ChunkTable
from podferry_agent.snapshot.databases import JOURNAL, WAL, base_of
from podferry_agent.snapshot.model import (
    HAS_HOLES,
    KEPT,
    TORN,
    UNREADABLE,
    VANISHED,
    Entry,
    display,
)
from podferry_agent.snapshot.packs import PackWriter
from podferry_agent.snapshot.previous import Parent
from podferry_agent.snapshot.walk import Node, WalkReport
from podferry_agent.snapshot.watch import LiveWatch

Links = dict[tuple[int, int], list[Node]]


class Unreached:
    """Settles the files whose content is not stored whole; used when nothing is read any more."""

    def __init__(
        self, parent: Parent, table: ChunkTable, writer: PackWriter, watch: LiveWatch
    ) -> None:
        self.paths: set[bytes] = set()  # those that are older than they should be, or left out
        self.is_partial = False
        self.has_new = False  # something that is newer than in the parent is stored
        self._texts: dict[bytes, str] = {}
        self._parent = parent
        self._table = table
        self._unstored = writer.unstored()
        self._watch = watch

    def texts(self) -> list[str]:
        """Each path, and whose content the snapshot has."""
        return [text for _, text in sorted(self._texts.items())]

    def settle(self, nodes: list[Node], links: Links, report: WalkReport) -> None:
        """Afterwards each file of `nodes` has content that is stored, or counts as vanished."""
        linked = self._settle_links(links)
        late = {
            node.entry.path
            for node in nodes
            if node.entry.is_regular
            and not node.entry.bits & (UNREADABLE | VANISHED)
            and id(node) not in linked
            and not self._is_stored(node)
        }
        # A database and its journal of two moments are no database: all of it is kept.
        late |= self._partners(late, report)
        for node in nodes:
            if node.entry.path in late and node.entry.is_regular and id(node) not in linked:
                self._keep(node, self._before([node]))
        self._settle_attributes(nodes)

    def _settle_links(self, links: Links) -> set[int]:
        """Groups of names of one file, of which the first was read; the nodes of all of them."""
        linked: set[int] = set()
        for inode, group in list(links.items()):
            while len(group) > 1 and group[0].entry.bits & VANISHED:
                group.pop(0)
            leader = group[0]
            if len(group) < 2 or not leader.entry.is_regular:
                continue
            linked.update(id(node) for node in group)
            if leader.entry.bits & UNREADABLE or self._is_stored(leader):
                continue
            before = self._before(group)
            for node in group:
                self._keep(node, before)
            if before is None:
                del links[inode]
        return linked

    def _is_stored(self, node: Node) -> bool:
        entry = node.entry
        is_torn = entry.bits & TORN and not entry.bits & KEPT
        is_without = entry.size and not entry.refs and not entry.bits & HAS_HOLES
        if id(node) not in self._watch.described or is_torn or is_without:
            return False
        is_stored = self._are_stored(entry.chunks)
        self.has_new = self.has_new or (is_stored and self._is_new(node))
        return is_stored

    def _is_new(self, node: Node) -> bool:
        """Not if it was only read again: then it is as in the parent."""
        before = self._parent.entry(node.entry.path)
        return before is None or differs_from(before, node) or before.refs != node.entry.refs

    def _are_stored(self, chunks: Iterable[int]) -> bool:
        packs = (self._table.pack_of(chunk) for chunk in chunks)
        return all(pack is not None and id(pack) not in self._unstored for pack in packs)

    def _has_attributes(self, entry: Entry) -> bool:
        return self._are_stored(chunk for _, chunk in entry.large_xattrs)

    def _partners(self, late: Iterable[bytes], report: WalkReport) -> set[bytes]:
        partners: set[bytes] = set()
        for path in late:
            base = base_of(path) or path
            partners |= {base, base + WAL, base + JOURNAL}
        report.removed[:] = [path for path in report.removed if path not in partners]
        return partners

    def _before(self, names: list[Node]) -> Entry | None:
        """The parent's file of the first of these names that it has."""
        for node in names:
            before = self._parent.entry(node.entry.path)
            if before is not None and before.is_regular and not before.bits & UNREADABLE:
                return before
        return None

    def _keep(self, node: Node, before: Entry | None) -> None:
        entry = node.entry
        self.is_partial = node.is_doubtful = True
        if before is None:
            entry.bits |= VANISHED
            self._note(entry.path, "not in this save")
            return
        has_attributes = self._has_attributes(entry)
        is_older = not has_attributes or differs_from(before, node) or self._watch.is_mapped(node)
        if id(node) not in self._watch.described:
            entry.flags, has_attributes = before.flags, False
        if not has_attributes:
            entry.xattrs, entry.large_xattrs = before.xattrs, before.large_xattrs
        entry.bits = before.bits & (HAS_HOLES | TORN | KEPT)
        entry.size, entry.mtime_ns, entry.refs = before.size, before.mtime_ns, before.refs
        entry.kept = before.kept
        if is_older:
            self._note(entry.path, f"kept as of {self._parent.owner_of(before)}")
        if is_older and not before.bits & TORN:
            entry.bits |= TORN | KEPT
            entry.kept = self._parent.owner_of(before)

    def _settle_attributes(self, nodes: list[Node]) -> None:
        """What is here though its large attributes are not stored: directories, special files."""
        for node in nodes:
            entry = node.entry
            if entry.bits & VANISHED or self._has_attributes(entry):
                continue
            self.is_partial = node.is_doubtful = True
            before = self._parent.entry(entry.path)
            if before is None or stat.S_IFMT(before.mode) != stat.S_IFMT(entry.mode):
                entry.large_xattrs = ()
                self._note(entry.path, "large attributes not in this save")
                continue
            entry.xattrs, entry.large_xattrs = before.xattrs, before.large_xattrs
            self._note(entry.path, f"attributes kept as of {self._parent.owner_of(before)}")

    def _note(self, path: bytes, what: str) -> None:
        self.paths.add(path)
        self._texts[path] = f"{display(path)}: {what}"


def differs_from(before: Entry | None, node: Node) -> bool:
    """Whether size and time say that the file is another than in the parent."""
    entry = node.entry
    if before is None or not before.is_regular or before.bits & (TORN | UNREADABLE):
        return True
    return (before.size, before.mtime_ns) != (entry.size, entry.mtime_ns)
