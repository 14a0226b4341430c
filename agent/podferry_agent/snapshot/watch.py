"""What the readers of a live capture look out for, and leave to be settled after the first pass."""

import os
import time
from dataclasses import dataclass, field

from podferry_agent.snapshot.databases import MAGIC, base_of
from podferry_agent.snapshot.openfiles import MappedFiles
from podferry_agent.snapshot.walk import Node

# Times of files come from a clock that some kernels move only every 10 ms.
TICK_NS = 20_000_000
_YOUNG_NS = 10_000_000_000


@dataclass
class LiveWatch:
    """Filled by several threads; lists take one append at a time."""

    root: bytes
    mapped: MappedFiles
    mapped_nodes: list[Node] = field(default_factory=list)  # not read in the first pass
    beside_databases: list[Node] = field(default_factory=list)  # named as a WAL or journal is
    databases: list[Node] = field(default_factory=list)
    torn: list[Node] = field(default_factory=list)
    young: list[Node] = field(default_factory=list)  # read, but written a moment ago
    is_hurried: bool = False
    described: set[int] = field(default_factory=set)  # in a hurry, ids of the nodes that were read
    settles_databases: bool = False  # readers are told what to read and what to make of it

    def takes(self, node: Node) -> bool:
        """Whether the first pass leaves this file alone."""
        if base_of(node.entry.path) is not None:
            self.beside_databases.append(node)
            return True
        if self.is_mapped(node):
            self.mapped_nodes.append(node)
            return True
        return False

    def is_mapped(self, node: Node) -> bool:
        return self.mapped.has(node.inode, self.absolute(node.entry.path))

    def absolute(self, path: bytes) -> bytes:
        return self.root.rstrip(b"/") + b"/" + path

    def relative(self, absolute: bytes) -> bytes:
        """A path in the tree; empty for one outside."""
        top = self.root.rstrip(b"/") + b"/"
        return absolute.removeprefix(top) if absolute.startswith(top) else b""

    def takes_database(self, node: Node, fd: int) -> bool:
        """Whether the file is a SQLite database: it has to be settled with the files beside it."""
        if self.settles_databases or os.pread(fd, len(MAGIC), 0) != MAGIC:
            return False
        self.databases.append(node)
        return True

    def saw(self, node: Node, *, torn: bool) -> None:
        """A file was read and described."""
        if self.is_hurried:
            self.described.add(id(node))
        if self.is_mapped(node):
            node.is_doubtful = True  # later stores may not move it
        if self.settles_databases:
            return
        if torn:
            self.torn.append(node)
        elif node.entry.mtime_ns > time.time_ns() - _YOUNG_NS:
            self.young.append(node)


def is_settled(ctime_ns: int, began_ns: int) -> bool:
    """Whether a write since `began_ns` would have given the file another ctime."""
    return ctime_ns < began_ns - TICK_NS
