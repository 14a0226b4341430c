"""Second half of reading a live tree: what the first pass left, as it could not be proven whole.

One thread: a database is open only while no other fd of it is.
"""

from contextlib import ExitStack

from podferry_agent.snapshot.livedatabases import DatabaseGroups
from podferry_agent.snapshot.livetools import LiveTools, forget_content
from podferry_agent.snapshot.model import TORN, VANISHED
from podferry_agent.snapshot.openfiles import Holders, holders_of, mapped_for_writing
from podferry_agent.snapshot.walk import Node


class LiveFiles:
    """Settles databases, mapped files, files that are being rewritten, and torn ones."""

    def __init__(self, tools: LiveTools) -> None:
        self.databases = DatabaseGroups(tools)
        self._tools = tools

    def settle(self, read: list[Node]) -> None:
        """`read` is what the first pass has read."""
        watch, tools = self._tools.watch, self._tools
        for node in [*watch.mapped_nodes, *self._mapped_meanwhile(read)]:
            tools.read_again(node)
        self.databases.settle()
        self.keep_rewritten()
        for node in [n for n in watch.torn if n.entry.bits & TORN]:
            if not tools.reader.guarded(node, self._is_settled_at_rest):
                tools.keep_previous(node)

    def keep_rewritten(self) -> None:
        """Files that are being written in place keep what the parent has of them."""
        for node in self._being_rewritten():
            self._tools.keep_previous(node)

    def _mapped_meanwhile(self, read: list[Node]) -> list[Node]:
        """Files that were read in the belief that a store to them would move their times."""
        watch = self._tools.watch
        before = [node for node in read if watch.is_mapped(node)]
        watch.mapped.add(mapped_for_writing())
        known = {id(node) for node in before}
        return [node for node in read if watch.is_mapped(node) and id(node) not in known]

    def _being_rewritten(self) -> list[Node]:
        """Files that hold still, but are half of what they were and still open.

        A checkpoint that is written in place looks like this. As a program may as well go on with
        a shorter file, this is believed of a file only if its parent's content is not a kept one.
        """
        suspects = [node for node in self._tools.watch.young if self._is_shorter(node)]
        holders = holders_of(node.inode for node in suspects)
        return [node for node in suspects if _is_rewritten(node, holders)]

    def _is_shorter(self, node: Node) -> bool:
        if node.entry.bits & VANISHED:
            return False
        good = self._tools.parent.good_entry(node.entry.path)
        return good is not None and not good.kept and node.entry.size < good.size

    def _is_settled_at_rest(self, node: Node) -> bool:
        tools = self._tools
        inodes = {node.inode}
        holders = holders_of(inodes)
        if not holders.writers_of(inodes) and not holders.is_blind:
            tools.read_again(node)  # whoever wrote to it has closed it
            return not node.entry.bits & TORN
        if self._is_shorter(node) and _is_rewritten(node, holders):
            return False
        with tools.opened(node) as fd, ExitStack() as stack:
            copies = tools.copier.copies([fd], stack)
            if copies is None:
                return False
            forget_content(node)
            tools.reader.read_copy(node, fd, copies[0], tools.workers)
            node.is_doubtful = True
        return True


def _is_rewritten(node: Node, holders: Holders) -> bool:
    """Whether somebody writes to it who does not only append, as programs do to a log."""
    writers = holders.writers_of({node.inode})
    return any(not holder.appends for holder in writers)
