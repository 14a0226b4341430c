"""The tree as it is on the machine at one moment, described as a manifest would describe it."""

from podferry_agent.snapshot.describe import describe_directory, describe_special
from podferry_agent.snapshot.listings import Listings
from podferry_agent.snapshot.model import BARE, TreeSpec, is_below
from podferry_agent.snapshot.rules import Rules
from podferry_agent.snapshot.tree import Tree
from podferry_agent.snapshot.walk import Node, Walker, WalkReport


class LiveTree:
    """All names of a tree that belong to the pod. Regular files are not opened yet.

    `before`, an earlier look at it by the same rules, tells about what has not changed since.
    """

    def __init__(
        self, tree: Tree, rules: Rules, spec: TreeSpec, before: "LiveTree | None" = None
    ) -> None:
        self._tree = tree
        known = Listings(before.report.listings, {}) if before else None
        is_volume = spec.kind == "volume"
        self._walker = Walker(tree, rules, spec.pod_prefix, with_sockets=is_volume, known=known)
        found = {n.entry.path: n for n in self._walker.walk(self._visit) if not n.known}
        self.report: WalkReport = self._walker.report
        self.nodes: dict[bytes, Node] = {**self._still_there(before), **found} if before else found
        self.inodes: dict[tuple[int, int], list[bytes]] = {}
        for path, node in self.nodes.items():
            if node.nlink > 1 and not node.entry.is_directory:
                self.inodes.setdefault((node.dev, node.ino), []).append(path)

    def _still_there(self, before: "LiveTree") -> dict[bytes, Node]:
        removed = {*self.report.removed, *(node.entry.path for node in self.report.closed)}
        if not removed:
            return before.nodes
        return {path: node for path, node in before.nodes.items() if not is_below(path, removed)}

    def _visit(self, directory: Node, fd: int, nodes: list[Node]) -> None:
        if not directory.known and not directory.entry.bits & BARE:
            describe_directory(directory, fd)
        for node in nodes:
            if not (node.known or node.entry.is_regular or node.entry.is_directory):
                try:
                    describe_special(self._tree, fd, node)
                except OSError as error:
                    self._walker.failed(node.entry.path, error)
