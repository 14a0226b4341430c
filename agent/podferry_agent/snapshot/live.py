"""The tree as it is on the machine at one moment, described as a manifest would describe it."""

from podferry_agent.snapshot.describe import describe_directory, describe_special
from podferry_agent.snapshot.model import BARE, TreeSpec
from podferry_agent.snapshot.rules import Rules
from podferry_agent.snapshot.tree import Tree
from podferry_agent.snapshot.walk import Node, Walker, WalkReport


class LiveTree:
    """All names of a tree that belong to the pod. Regular files are not opened yet."""

    def __init__(self, tree: Tree, rules: Rules, spec: TreeSpec) -> None:
        self._tree = tree
        self._walker = Walker(tree, rules, spec.pod_prefix, with_sockets=spec.kind == "volume")
        self.nodes: dict[bytes, Node] = {
            node.entry.path: node for node in self._walker.walk(self._visit)
        }
        self.report: WalkReport = self._walker.report
        self.inodes: dict[tuple[int, int], list[bytes]] = {}
        for path, node in self.nodes.items():
            if node.nlink > 1 and not node.entry.is_directory:
                self.inodes.setdefault((node.dev, node.ino), []).append(path)

    def _visit(self, directory: Node, fd: int, nodes: list[Node]) -> None:
        if not directory.entry.bits & BARE:
            describe_directory(directory, fd)
        for node in nodes:
            if not (node.entry.is_regular or node.entry.is_directory):
                try:
                    describe_special(self._tree, fd, node)
                except OSError as error:
                    self._walker.failed(node.entry.path, error)
