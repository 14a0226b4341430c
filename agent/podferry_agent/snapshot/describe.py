"""Fills in what `lstat` does not tell: flags, extended attributes, written-down wishes."""

import os

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.listings import row_of
from podferry_agent.snapshot.tree import Tree
from podferry_agent.snapshot.walk import Node
from podferry_agent.snapshot.xattrs import read_xattrs, settle


def describe_file(node: Node, fd: int, status: os.stat_result) -> None:
    """Everything from the open file, so that it belongs to the content that was read."""
    entry = node.entry
    entry.mode, entry.uid, entry.gid = status.st_mode, status.st_uid, status.st_gid
    entry.mtime_ns, entry.size = status.st_mtime_ns, status.st_size
    if (row := row_of(status)) != node.row:
        node.row = row
    node.is_doubtful = False
    entry.flags = posix.get_flags(fd)
    entry.large_xattrs = ()
    settle(entry, read_xattrs(fd))


def describe_directory(node: Node, fd: int) -> None:
    node.entry.flags = posix.get_flags(fd)
    settle(node.entry, read_xattrs(fd))


def describe_special(tree: Tree, directory_fd: int, node: Node) -> None:
    """Symlinks, FIFOs, sockets and devices: never opened."""
    path = tree.outside_path(directory_fd, node.entry.parent, node.entry.name)
    settle(node.entry, read_xattrs(path))
