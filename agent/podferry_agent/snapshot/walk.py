"""Walks a live tree in the order of a manifest: a directory, then what is in it, names sorted."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.model import BARE, TEMPORARY_PREFIX, VANISHED, Entry
from podferry_agent.snapshot.mounts import can_read_mountinfo
from podferry_agent.snapshot.rules import Rules, Verdict
from podferry_agent.snapshot.tree import Tree
from podferry_agent.snapshot.xattrs import is_device

# The name went away, or became something else, between being listed and being looked at.
VANISHED_ERRNOS = (errno.ENOENT, errno.ESTALE, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


@dataclass(slots=True)
class Node:
    """A name that was found: the entry it makes, and the facts that tell if it changed."""

    entry: Entry
    dev: int
    ino: int
    ctime_ns: int
    nlink: int
    blocks: int
    opened: bool = False  # a directory whose contents are walked
    known: bool = False  # unchanged since the snapshot whose facts are on this machine


@dataclass
class WalkReport:
    """What a walk met that is no node."""

    unreadable: list[tuple[bytes, int]] = field(default_factory=list)
    leftovers: list[bytes] = field(default_factory=list)  # our temporary names from a crash
    vanished: int = 0


# Called with a directory, its fd and the nodes in it while the fd is open.
Visitor = Callable[[Node, int, list[Node]], None]


class Walker:
    """One walk over one tree."""

    def __init__(self, tree: Tree, rules: Rules, prefix: bytes, *, with_sockets: bool) -> None:
        self.report = WalkReport()
        self._tree = tree
        self._rules = rules
        self._prefix = prefix
        self._with_sockets = with_sockets
        self._ask_for_mounts = not can_read_mountinfo()

    def walk(self, visit: Visitor | None = None) -> Iterator[Node]:
        """Nodes in manifest order; the root comes first. `visit` sees each directory once."""
        root = _node(b"", os.fstat(self._tree.fd))
        root.opened = True
        yield root
        stack = [iter(self._list(root, visit))]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            yield node
            if node.opened:
                stack.append(iter(self._list(node, visit)))

    def _list(self, directory: Node, visit: Visitor | None) -> list[Node]:
        path = directory.entry.path
        try:
            with self._tree.directory(path) as fd:
                nodes = self._nodes(path, fd, directory.dev)
                if visit:
                    visit(directory, fd, nodes)
                return nodes
        except OSError as error:
            self.failed(path, error)
            if error.errno in VANISHED_ERRNOS:
                directory.entry.bits |= VANISHED
            return []

    def failed(self, path: bytes, error: OSError) -> None:
        """Count what vanished; remember what exists but cannot be read."""
        if error.errno in VANISHED_ERRNOS:
            self.report.vanished += 1
        else:
            self.report.unreadable.append((path, error.errno or errno.EIO))

    def _nodes(self, path: bytes, fd: int, dev: int) -> list[Node]:
        nodes = []
        with os.scandir(fd) as entries:
            for found in entries:
                name = os.fsencode(found.name)
                child = path + b"/" + name if path else name
                if name.startswith(TEMPORARY_PREFIX):
                    self.report.leftovers.append(child)
                    continue
                try:
                    status = found.stat(follow_symlinks=False)
                    node = self._judged(child, name, status, (fd, dev))
                except OSError as error:
                    self.failed(child, error)
                    continue
                if node:
                    nodes.append(node)
        nodes.sort(key=lambda node: node.entry.path)
        return nodes

    def _judged(
        self, child: bytes, name: bytes, status: os.stat_result, parent: tuple[int, int]
    ) -> Node | None:
        directory = stat.S_ISDIR(status.st_mode)
        verdict = self._rules.judge(self._prefix + b"/" + child, directory=directory)
        if self._is_unlisted_mount(name, status, parent):
            verdict = Verdict.BARE if directory else Verdict.MACHINE
            opened = False
        else:
            opened = directory and self._is_opened(child, verdict)
            if opened and verdict is not Verdict.KEEP:
                verdict = Verdict.BARE
        if verdict not in (Verdict.KEEP, Verdict.BARE) or self._is_skipped_socket(status):
            return None
        node = _node(child, status)
        node.opened = opened
        if verdict is Verdict.BARE:
            node.entry.bits |= BARE
        elif stat.S_ISLNK(status.st_mode):
            node.entry.target = os.readlink(name, dir_fd=parent[0])
        return node

    def _is_opened(self, child: bytes, verdict: Verdict) -> bool:
        return verdict is Verdict.KEEP or self._rules.opens(self._prefix + b"/" + child)

    def _is_skipped_socket(self, status: os.stat_result) -> bool:
        return stat.S_ISSOCK(status.st_mode) and not self._with_sockets

    def _is_unlisted_mount(
        self, name: bytes, status: os.stat_result, parent: tuple[int, int]
    ) -> bool:
        """A mount that /proc did not tell about: another device, or statx says so.

        Only directories are compared by device: on overlayfs the files of a lower layer have a
        device number of their own. A btrfs subvolume has one too, but is no mount.
        """
        fd, dev = parent
        differs = stat.S_ISDIR(status.st_mode) and status.st_dev != dev
        if differs:
            return posix.is_mount_root(fd, name) is not False
        return self._ask_for_mounts and posix.is_mount_root(fd, name) is True


def _node(path: bytes, status: os.stat_result) -> Node:
    mode = status.st_mode
    entry = Entry(
        path,
        mode,
        status.st_uid,
        status.st_gid,
        status.st_size if stat.S_ISREG(mode) else 0,
        status.st_mtime_ns,
    )
    if is_device(mode):
        entry.rdev = status.st_rdev
    return Node(
        entry, status.st_dev, status.st_ino, status.st_ctime_ns, status.st_nlink, status.st_blocks
    )
