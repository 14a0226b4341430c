"""What both halves of settling a live tree work with."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from podferry_agent.snapshot.model import HAS_HOLES, KEPT, TORN
from podferry_agent.snapshot.pace import Pace
from podferry_agent.snapshot.previous import Parent
from podferry_agent.snapshot.reading import FileReader
from podferry_agent.snapshot.restcopies import RestCopier
from podferry_agent.snapshot.tree import Tree, split_path
from podferry_agent.snapshot.walk import Node, WalkReport, look
from podferry_agent.snapshot.watch import LiveWatch


@dataclass
class LiveTools:
    """The parts of a running capture; used by one thread."""

    tree: Tree
    reader: FileReader
    watch: LiveWatch
    parent: Parent
    report: WalkReport
    copier: RestCopier
    pace: Pace
    workers: Executor
    directory: Path  # for our own temporary files
    warnings: list[str] = field(default_factory=list)

    @contextmanager
    def opened(self, node: Node) -> Iterator[int]:
        with self.tree.file(*split_path(node.entry.path)) as fd:
            yield fd

    def look(self, path: bytes) -> Node | None:
        """The regular file at a path, as it is; None if there is none."""
        node = look(self.tree, path)
        return node if node and node.entry.is_regular else None

    def read_again(self, node: Node) -> None:
        forget_content(node)
        self.reader.read_big(node, self.workers)

    def keep_previous(self, node: Node) -> None:
        """A torn file keeps what the parent has of it, or what could be read if that has nothing.

        Its other metadata is that of today.
        """
        entry, good = node.entry, self.parent.good_entry(node.entry.path)
        needs_content = good is None and not entry.refs
        node.is_doubtful = True
        if needs_content:
            forget_content(node)
            self.reader.read_as_it_is(node, self.workers)
        entry.bits |= TORN
        if good is None or self.parent.root is None:
            return
        entry.bits = entry.bits & ~HAS_HOLES | good.bits & HAS_HOLES | KEPT
        entry.size, entry.mtime_ns, entry.refs = good.size, good.mtime_ns, good.refs
        entry.kept = self.parent.owner_of(good)


def forget_content(node: Node) -> None:
    node.entry.bits &= ~(TORN | KEPT | HAS_HOLES)
    node.entry.refs, node.entry.kept = (), ""
