"""Walks a live tree in the order of a manifest: a directory, then what is in it, names sorted."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from podferry_agent.snapshot.found import entry_of, shared
from podferry_agent.snapshot.listings import ROW_SIZE, Listing, Listings, inode_of, row_of
from podferry_agent.snapshot.model import BARE, TEMPORARY_PREFIX, VANISHED, Entry
from podferry_agent.snapshot.mounts import can_read_mountinfo, is_unlisted_mount
from podferry_agent.snapshot.rules import Rules, Verdict
from podferry_agent.snapshot.scanning import FileStatus, Scan, scan
from podferry_agent.snapshot.trail import Trail
from podferry_agent.snapshot.tree import VANISHED_ERRNOS, Tree, split_path


@dataclass(slots=True)
class Node:
    """A name that was found: the entry it makes, and the facts that tell if it changed."""

    entry: Entry
    nlink: int
    row: bytes  # the facts, as a listing has them
    is_doubtful: bool = False  # the facts do not prove what was read: it is read again next time
    is_excused: bool = False  # this capture moved the ctime itself, which so is no sign of a change
    opened: bool = False  # a directory whose contents are walked
    known: bool = False  # unchanged since the snapshot whose facts are on this machine

    @property
    def inode(self) -> tuple[int, int]:
        """Device and inode."""
        return inode_of(self.row)


@dataclass
class WalkReport:
    """What a walk met that is no node."""

    unreadable: list[tuple[bytes, int]] = field(default_factory=list)
    leftovers: list[bytes] = field(default_factory=list)  # our temporary names from a crash
    vanished: int = 0
    closed: list[Node] = field(default_factory=list)  # directories that could not be listed
    # Directories in which some name could not be looked at, and whether they were known.
    partial: list[tuple[Node, bool]] = field(default_factory=list)
    removed: list[bytes] = field(default_factory=list)  # known before, with all below: gone
    listings: list[Listing] = field(default_factory=list)


# Called with a directory, its fd and the nodes in it while the fd is open.
Visitor = Callable[[Node, int, list[Node]], None]


class Walker:
    """One walk over one tree."""

    def __init__(
        self,
        tree: Tree,
        rules: Rules,
        prefix: bytes,
        *,
        with_sockets: bool,
        known: Listings | None = None,
    ) -> None:
        """`known`: listings of an earlier walk with the same rules.

        With them the walk yields, of what has not changed, only the directories it opens.
        """
        self.report = WalkReport()
        self._tree = tree
        self._trail = Trail(tree)
        self._rules = rules
        self._prefix = prefix
        self._with_sockets = with_sockets
        self._ask_for_mounts = not can_read_mountinfo()
        # Mounts that only statx can tell are not in a listing.
        self._known = None if self._ask_for_mounts else known

    def walk(self, visit: Visitor | None = None) -> Iterator[Node]:
        """Nodes in manifest order; the root comes first. `visit` sees each directory once."""
        status = os.fstat(self._tree.fd)
        root = _node(b"", status, row_of(status))
        root.opened = True
        yield root
        with self._trail:
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
            fd = self._trail.enter(path)
            failures = len(self.report.unreadable)
            nodes = self._nodes(directory, fd)
            if len(self.report.unreadable) > failures:
                self.report.partial.append((directory, directory.known))
                directory.known = False
            if visit:
                visit(directory, fd, nodes)
        except OSError as error:
            self.failed(path, error)
            self.report.closed.append(directory)
            if error.errno in VANISHED_ERRNOS:
                directory.entry.bits |= VANISHED
            return []
        return nodes

    def look(self, path: bytes, inode: tuple[int, int]) -> Node | None:
        """A path that the walk did not yield because nothing in its directory changed."""
        node = look(self._tree, path)
        return node if node and node.inode == inode else None

    def failed(self, path: bytes, error: OSError) -> None:
        """Count what vanished; remember what exists but cannot be read."""
        if error.errno in VANISHED_ERRNOS:
            self.report.vanished += 1
        else:
            self.report.unreadable.append((path, error.errno or errno.EIO))

    def _nodes(self, directory: Node, fd: int) -> list[Node]:
        path = directory.entry.path
        found = scan(fd, lambda name, error: self.failed(_joined(path, name), error))
        listing = Listing(path, found.names, found.rows, b"")
        old = self._known.get(path) if self._known else None
        if old and (old.names, old.rows) == (listing.names, listing.rows):
            self.report.listings.append(old)
            return self._same_directories(old, found)
        nodes = self._new_nodes(directory, fd, listing, found)
        if old:
            nodes = self._without_known(old, listing, nodes)
        nodes.sort(key=lambda node: node.entry.path)
        listing.opened = b"\0".join([split_path(n.entry.path)[1] for n in nodes if n.opened])
        self.report.listings.append(listing)
        return nodes

    def _same_directories(self, old: Listing, found: Scan) -> list[Node]:
        """Of an unchanged directory, the directories in it: what is in them may have changed."""
        if not old.opened:
            return []
        by_name = dict(found.named())
        opened = [(_joined(old.path, name), by_name[name]) for name in old.opened_names()]
        nodes = [_node(path, status, row_of(status)) for path, status in opened]
        for node in nodes:
            node.opened = node.known = True
        return nodes

    def _new_nodes(self, directory: Node, fd: int, listing: Listing, found: Scan) -> list[Node]:
        nodes = []
        device = directory.inode[0]
        for place, (name, status) in enumerate(found.named()):
            child = _joined(listing.path, name)
            if name.startswith(TEMPORARY_PREFIX):
                self.report.leftovers.append(child)
                continue
            try:
                row = listing.rows[place * ROW_SIZE : (place + 1) * ROW_SIZE]
                node = self._judged(child, (name, status, row), (fd, device))
            except OSError as error:
                self.failed(child, error)
                listing.unproven.append(place)
                continue
            if node:
                listing.places.append(place)
                listing.nodes.append(node)
                nodes.append(node)
        return nodes

    def _without_known(self, old: Listing, listing: Listing, nodes: list[Node]) -> list[Node]:
        """Mark what has not changed, and keep of it only the directories to be opened."""
        before, now = old.by_name(), listing.by_name()
        opened_before = set(old.opened_names())
        changed = []
        kept = set()
        for node in nodes:
            name = split_path(node.entry.path)[1]
            node.known = before.get(name) == node.row
            # What is no longer opened, or is opened for the first time, is another thing.
            if node.opened != (name in opened_before):
                node.known = False
            kept.add(name)
            if not node.opened and name in opened_before:
                self.report.removed.append(node.entry.path)
            if node.opened or not node.known:
                changed.append(node)
        listing.keep_new_nodes()
        gone = (n for n, row in before.items() if n not in kept and now.get(n) != row)
        self.report.removed += [_joined(old.path, name) for name in gone]
        return changed

    def _judged(
        self, child: bytes, found: tuple[bytes, FileStatus, bytes], parent: tuple[int, int]
    ) -> Node | None:
        """The node of a name (name, status, row) in its parent (fd, device); None if left out."""
        name, status, row = found
        kind = stat.S_IFMT(status.st_mode)
        directory = kind == stat.S_IFDIR
        verdict = self._rules.judge(self._prefix + b"/" + child, directory=directory)
        if kind == stat.S_IFREG and not self._ask_for_mounts:  # most names take the short way
            return _regular(child, status, row) if verdict is Verdict.KEEP else None
        fd, device = parent
        if is_unlisted_mount((fd, name, device), status, ask=self._ask_for_mounts):
            verdict = Verdict.BARE if directory else Verdict.MACHINE
            opened = False
        else:
            opened = directory and self._is_opened(child, verdict)
            if opened and verdict is not Verdict.KEEP:
                verdict = Verdict.BARE
        if verdict not in (Verdict.KEEP, Verdict.BARE) or self._is_skipped_socket(status):
            return None
        node = _node(child, status, row)
        node.opened = opened
        if verdict is Verdict.BARE:
            node.entry.bits |= BARE
        elif stat.S_ISLNK(status.st_mode):
            node.entry.target = os.readlink(name, dir_fd=fd)
        return node

    def _is_opened(self, child: bytes, verdict: Verdict) -> bool:
        return verdict is Verdict.KEEP or self._rules.opens(self._prefix + b"/" + child)

    def _is_skipped_socket(self, status: FileStatus) -> bool:
        return stat.S_ISSOCK(status.st_mode) and not self._with_sockets


def _regular(path: bytes, status: FileStatus, row: bytes) -> Node:
    entry = Entry(
        path,
        shared(status.st_mode),
        shared(status.st_uid),
        shared(status.st_gid),
        status.st_size,
        status.st_mtime_ns,
    )
    return Node(entry, status.st_nlink, row)


def _node(path: bytes, status: FileStatus, row: bytes) -> Node:
    return Node(entry_of(path, status), status.st_nlink, row)


def look(tree: Tree, path: bytes) -> Node | None:
    """What is at a path, as far as `lstat` tells; None if nothing is."""
    directory, name = split_path(path)
    try:
        with tree.directory(directory) as fd:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None
    return _node(path, status, row_of(status))


def _joined(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name
