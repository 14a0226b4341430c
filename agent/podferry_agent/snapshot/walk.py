"""Walks a live tree in the order of a manifest: a directory, then what is in it, names sorted."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.listings import ROW_SIZE, Listing, Listings, inode_of, row_of
from podferry_agent.snapshot.model import BARE, TEMPORARY_PREFIX, VANISHED, Entry
from podferry_agent.snapshot.mounts import can_read_mountinfo
from podferry_agent.snapshot.rules import Rules, Verdict
from podferry_agent.snapshot.tree import OPEN_DIRECTORY, Tree, split_path
from podferry_agent.snapshot.xattrs import is_device

_TRAIL = 64  # ancestors kept open: saves walking each path from the root
# The name went away, or became something else, between being listed and being looked at.
VANISHED_ERRNOS = (errno.ENOENT, errno.ESTALE, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


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
        self._trail: list[tuple[bytes, int]] = []  # open ancestors of the present directory
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
        stack = [iter(self._list(root, visit))]
        try:
            while stack:
                node = next(stack[-1], None)
                if node is None:
                    stack.pop()
                    continue
                yield node
                if node.opened:
                    stack.append(iter(self._list(node, visit)))
        finally:
            self._leave_until(None)

    def _list(self, directory: Node, visit: Visitor | None) -> list[Node]:
        path = directory.entry.path
        try:
            with self._opened(path) as fd:
                failures = len(self.report.unreadable)
                nodes = self._nodes(directory, fd)
                if len(self.report.unreadable) > failures:
                    self.report.partial.append((directory, directory.known))
                    directory.known = False
                if visit:
                    visit(directory, fd, nodes)
                return nodes
        except OSError as error:
            self.failed(path, error)
            self.report.closed.append(directory)
            if error.errno in VANISHED_ERRNOS:
                directory.entry.bits |= VANISHED
            return []

    @contextmanager
    def _opened(self, path: bytes) -> Iterator[int]:
        """The directory, opened from its parent where that is still open."""
        parent, name = split_path(path)
        self._leave_until(parent if path else None)
        is_next = not path or (bool(self._trail) and self._trail[-1][0] == parent)
        if self._trail and is_next:
            fd = os.open(name, OPEN_DIRECTORY, dir_fd=self._trail[-1][1])
        else:
            fd = self._tree.open_directory(path)
        if is_next and len(self._trail) < _TRAIL:
            self._trail.append((path, fd))
            yield fd
            return
        try:
            yield fd
        finally:
            os.close(fd)

    def _leave_until(self, path: bytes | None) -> None:
        """Close what is neither `path` nor above it; None closes all."""
        while self._trail and not _is_at_or_below(path, self._trail[-1][0]):
            os.close(self._trail.pop()[1])

    def look(self, path: bytes, inode: tuple[int, int]) -> Node | None:
        """A path that the walk did not yield because nothing in its directory changed."""
        directory, name = split_path(path)
        try:
            with self._tree.directory(directory) as fd:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            return None
        node = _node(path, status, row_of(status))
        return node if node.inode == inode else None

    def failed(self, path: bytes, error: OSError) -> None:
        """Count what vanished; remember what exists but cannot be read."""
        if error.errno in VANISHED_ERRNOS:
            self.report.vanished += 1
        else:
            self.report.unreadable.append((path, error.errno or errno.EIO))

    def _nodes(self, directory: Node, fd: int) -> list[Node]:
        path = directory.entry.path
        found = self._scan(path, fd)
        names = _encoded([name for name, _ in found])
        listing = Listing(path, names, b"".join([row_of(status) for _, status in found]), b"")
        old = self._known.get(path) if self._known else None
        if old and (old.names, old.rows) == (listing.names, listing.rows):
            self.report.listings.append(old)
            return self._same_directories(old, [status for _, status in found])
        nodes = self._new_nodes(directory, fd, listing, [status for _, status in found])
        if old:
            nodes = self._without_known(old, listing, nodes)
        nodes.sort(key=lambda node: node.entry.path)
        listing.opened = b"\0".join([split_path(n.entry.path)[1] for n in nodes if n.opened])
        self.report.listings.append(listing)
        return nodes

    def _scan(self, path: bytes, fd: int) -> list[tuple[str, os.stat_result]]:
        try:
            with os.scandir(fd) as entries:
                return [(found.name, found.stat(follow_symlinks=False)) for found in entries]
        except OSError:
            # Not before scandir is closed: both share the fd's position, which is then set back.
            return self._scan_one_by_one(path, fd)

    def _scan_one_by_one(self, path: bytes, fd: int) -> list[tuple[str, os.stat_result]]:
        """Some name vanished in between, or cannot be looked at."""
        found = []
        for name in os.listdir(fd):
            try:
                found.append((name, os.stat(name, dir_fd=fd, follow_symlinks=False)))
            except OSError as error:
                self.failed(_joined(path, os.fsencode(name)), error)
        return found

    def _same_directories(self, old: Listing, statuses: list[os.stat_result]) -> list[Node]:
        """Of an unchanged directory, the directories in it: what is in them may have changed."""
        if not old.opened:
            return []
        by_name = dict(zip(old.names.split(b"\0"), statuses, strict=True))
        opened = [(_joined(old.path, name), by_name[name]) for name in old.opened_names()]
        nodes = [_node(path, status, row_of(status)) for path, status in opened]
        for node in nodes:
            node.opened = node.known = True
        return nodes

    def _new_nodes(
        self, directory: Node, fd: int, listing: Listing, statuses: list[os.stat_result]
    ) -> list[Node]:
        nodes = []
        device = directory.inode[0]
        names = listing.names.split(b"\0") if listing.names else []
        for place, (name, status) in enumerate(zip(names, statuses, strict=True)):
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
        self, child: bytes, found: tuple[bytes, os.stat_result, bytes], parent: tuple[int, int]
    ) -> Node | None:
        """The node of a name (name, status, row) in its parent (fd, device); None if left out."""
        name, status, row = found
        kind = stat.S_IFMT(status.st_mode)
        directory = kind == stat.S_IFDIR
        verdict = self._rules.judge(self._prefix + b"/" + child, directory=directory)
        if kind == stat.S_IFREG and not self._ask_for_mounts:  # most names take the short way
            return _regular(child, status, row) if verdict is Verdict.KEEP else None
        if self._is_unlisted_mount(name, status, parent):
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


def _regular(path: bytes, status: os.stat_result, row: bytes) -> Node:
    entry = Entry(
        path,
        _shared(status.st_mode),
        _shared(status.st_uid),
        _shared(status.st_gid),
        status.st_size,
        status.st_mtime_ns,
    )
    return Node(entry, status.st_nlink, row)


def _node(path: bytes, status: os.stat_result, row: bytes) -> Node:
    mode = status.st_mode
    entry = Entry(
        path,
        _shared(mode),
        _shared(status.st_uid),
        _shared(status.st_gid),
        status.st_size if stat.S_ISREG(mode) else 0,
        status.st_mtime_ns,
    )
    if is_device(mode):
        entry.rdev = status.st_rdev
    return Node(entry, status.st_nlink, row)


def _shared(number: int, numbers: dict[int, int] = {}) -> int:  # noqa: B006 (shared on purpose)
    """One object for all equal modes and owners: a tenth of the memory of a large tree."""
    return numbers.setdefault(number, number)


def _joined(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name


def _is_at_or_below(path: bytes | None, directory: bytes) -> bool:
    if path is None:
        return False
    return not directory or path == directory or path.startswith(directory + b"/")


def _encoded(names: list[str]) -> bytes:
    """All names of a directory as bytes, joined by the one byte that no name has."""
    return os.fsencode("\0".join(names))
