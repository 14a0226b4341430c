"""Small files that nothing is odd about, many at a time, by the compiled helper."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from podferry_agent.snapshot.chunks import ChunkTable, chunk_id
from podferry_agent.snapshot.databases import MAGIC
from podferry_agent.snapshot.native import Found, helper
from podferry_agent.snapshot.tree import split_path
from podferry_agent.snapshot.walk import Node
from podferry_agent.snapshot.watch import LiveWatch, is_settled

BATCH = 1 << 20  # bytes of small files that are read together
_MOST, _FEWEST = 1024, 4


@dataclass
class Joined:
    """Small files that become one block together."""

    data: memoryview
    used: int
    members: list[tuple[int, int]]  # chunk number, offset in the block

    def join(self, at: int, length: int, table: ChunkTable, key: bytes) -> tuple[int, ...]:
        """The refs of a file whose content lies in the room, at `used` or later."""
        if not length:
            return ()
        data, used = self.data[at : at + length], self.used
        chunk, is_new = table.reserve(chunk_id(data, key), length)
        if is_new:
            self.members.append((chunk, used))
            if at != used:
                self.data[used : used + length] = data
            self.used += length
        return (0, chunk)


class PlainReader:
    """Reads files of one directory, up to the first that is not plain."""

    def __init__(self, table: ChunkTable, key: bytes, watch: LiveWatch | None) -> None:
        self._table = table
        self._key = key
        self._watch = watch

    def read(self, directory_fd: int, nodes: Sequence[Node], joined: Joined) -> int:
        """How many of the first nodes are done; none without the helper."""
        native = helper()
        if native is None or joined.used >= len(joined.data):
            return 0
        began_ns = time.time_ns()
        files = [(split_path(node.entry.path)[1], node.row) for node in nodes]
        found = native.read_plain(directory_fd, files, joined.data[joined.used :])
        at, done = joined.used, 0
        for node, facts in zip(nodes, found, strict=False):
            if self._watch and not self._is_left_alone(facts, joined.data[at:], began_ns):
                break
            _describe(node, facts)
            if self._watch:
                self._watch.saw(node, torn=False)
            length = node.entry.size
            node.entry.refs = joined.join(at, length, self._table, self._key)
            at += length
            done += 1
        return done

    def _is_left_alone(self, facts: Found, data: memoryview, began_ns: int) -> bool:
        """In a live tree: nobody wrote to it, and it is no database, which has to be settled."""
        is_database = facts[4] >= len(MAGIC) and data[: len(MAGIC)] == MAGIC
        return is_settled(facts[2], began_ns) and not is_database


def _describe(node: Node, facts: Found) -> None:
    """As `describe_file` does for a file without attributes; the row stays as it is."""
    entry = node.entry
    _, _, _, entry.mtime_ns, entry.size, entry.mode, entry.uid, entry.gid, _, _, entry.flags = facts
    node.is_doubtful = False
    entry.xattrs = entry.large_xattrs = ()


class Ahead:
    """How many files to try at a time: few where one in a few is odd."""

    def __init__(self) -> None:
        self._count = _MOST

    def take(self, sizes: Iterable[int]) -> int:
        """How many of the files with these sizes come next: no more than a cache holds."""
        total = count = 0
        for size in islice(sizes, self._count):
            total += size
            if count and total > BATCH:
                break
            count += 1
        return count

    def note(self, *, is_odd: bool) -> None:
        self._count = _FEWEST if is_odd else min(_MOST, 4 * self._count)
