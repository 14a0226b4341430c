"""Reads files for a capture: stable, hashed, deduplicated, and stored where new."""

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from dataclasses import dataclass
from functools import partial

from podferry_agent.snapshot.chunks import ChunkTable, chunk_id
from podferry_agent.snapshot.cutting import (
    MAX_CHUNK,
    MIB,
    SINGLE_CHUNK,
    Cutter,
    Segment,
    data_extents,
    plan_segments,
)
from podferry_agent.snapshot.describe import describe_file
from podferry_agent.snapshot.listings import row_of
from podferry_agent.snapshot.model import HAS_HOLES, TORN, UNREADABLE, VANISHED
from podferry_agent.snapshot.packs import PackWriter
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.tree import Tree, split_path
from podferry_agent.snapshot.walk import VANISHED_ERRNOS, Node

SMALL = 1 * MIB  # files up to this size are joined to blocks
BATCH = 2 * MIB
BATCH_FILES = 1000
_ATTEMPTS = 3
_WINDOW = 2 * MAX_CHUNK


class ChangedError(Exception):
    """The file moved while it was read."""


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.small = memoryview(bytearray(BATCH + 2 * SMALL + 1))
        self._window: memoryview | None = None

    @property
    def window(self) -> memoryview:
        if self._window is None:
            self._window = memoryview(bytearray(_WINDOW))
        return self._window


@dataclass
class Joined:
    """Small files that become one block together."""

    data: memoryview
    used: int
    members: list[tuple[int, int]]  # chunk number, offset in the block


class FileReader:
    """Fills the entries of regular files; its methods run in worker threads."""

    def __init__(
        self, tree: Tree, table: ChunkTable, writer: PackWriter, key: bytes, meter: Meter
    ) -> None:
        self._tree = tree
        self._table = table
        self._writer = writer
        self._key = key
        self._meter = meter
        self._cutter = Cutter()
        self._buffers = _Buffers()
        self.new_bytes = 0
        self._lock = threading.Lock()
        self.unreadable: list[tuple[bytes, int]] = []

    def read_small(self, batch: list[Node]) -> list[Node]:
        """Read a batch into one block; returns the nodes that turned out to be big or sparse."""
        joined = Joined(self._buffers.small, 0, [])
        postponed = []
        for directory, nodes in _by_directory(batch):
            try:
                with self._tree.directory(directory) as fd:
                    read = partial(self._small, fd, joined)
                    postponed += [node for node in nodes if not self._guarded(node, read)]
            except OSError as error:
                for node in nodes:
                    self._failed(node, error)
        if joined.members:
            self._store(joined.data[: joined.used], joined.members)
        self._meter.add(sum(n.entry.size for n in batch), len(batch) - len(postponed))
        return postponed

    def read_big(self, node: Node, workers: Executor) -> None:
        """Read one file in segments, which other workers take."""
        self._guarded(node, partial(self._big, workers))
        self._meter.add(0, 1)

    def _guarded(self, node: Node, read: Callable[[Node], bool]) -> bool:
        try:
            return read(node)
        except OSError as error:
            self._failed(node, error)
            return True

    def _failed(self, node: Node, error: OSError) -> None:
        if error.errno in VANISHED_ERRNOS:
            node.entry.bits |= VANISHED
            node.ctime_ns = 0
            return
        node.entry.bits |= UNREADABLE
        node.entry.refs = ()
        node.ctime_ns = 0
        with self._lock:
            self.unreadable.append((node.entry.path, error.errno or errno.EIO))

    def _small(self, directory_fd: int, joined: Joined, node: Node) -> bool:
        """False if the file has to take the way of big ones."""
        fd = self._tree.open_file(directory_fd, split_path(node.entry.path)[1])
        try:
            # Nothing happened to the file if it is after the read what the walk saw before.
            expected, size = node.row, node.entry.size
            for _ in range(1 + _ATTEMPTS):
                length = _read_small(fd, joined.data[joined.used :], size)
                after = _status(fd)
                if after.st_size > SMALL or after.st_blocks * 512 < after.st_size:
                    return False
                found = row_of(after)
                is_stable = found == expected and length == size
                if is_stable:
                    break
                expected, size = found, after.st_size
            self._describe(node, fd, after, torn=not is_stable)
            node.entry.size = length
            node.entry.refs = self._join(joined, length)
        finally:
            os.close(fd)
        return True

    def _join(self, joined: Joined, length: int) -> tuple[int, ...]:
        if not length:
            return ()
        data = joined.data[joined.used : joined.used + length]
        chunk, is_new = self._table.reserve(chunk_id(data, self._key), length)
        if is_new:
            joined.members.append((chunk, joined.used))
            joined.used += length
        return (0, chunk)

    def _big(self, workers: Executor, node: Node) -> bool:
        directory, name = split_path(node.entry.path)
        with self._tree.file(directory, name) as fd:
            for attempt in range(_ATTEMPTS):
                before = _status(fd)
                extents = data_extents(fd, before)
                refs, is_whole = self._segments(fd, name, before.st_size, extents, workers)
                after = os.fstat(fd)
                is_stable = is_whole and _same(before, after)
                if is_stable or attempt == _ATTEMPTS - 1:
                    break
            self._describe(node, fd, after, torn=not is_stable)
        node.entry.size = before.st_size
        node.entry.refs = refs
        if sum(length for _, length in extents) < before.st_size:
            node.entry.bits |= HAS_HOLES
        return True

    def _segments(
        self, fd: int, name: bytes, size: int, extents: list[tuple[int, int]], workers: Executor
    ) -> tuple[tuple[int, ...], bool]:
        if size <= SINGLE_CHUNK and extents == [(0, size)]:
            segments = iter([Segment(0, size, ((0, size),))])
        else:
            segments = plan_segments(fd, name, size, extents)
        running = [workers.submit(self._segment, fd, segment) for segment in segments]
        wait(running)  # all of them, also after a failure: they share the fd
        refs: list[int] = []
        is_whole = True
        for future in running:
            found, complete = future.result()
            refs += found
            is_whole = is_whole and complete
        return tuple(refs), is_whole

    def _segment(self, fd: int, segment: Segment) -> tuple[list[int], bool]:
        """Refs of the chunks, and whether nothing was missing."""
        source = self._grid_pieces if segment.chunks else self._content_pieces
        refs: list[int] = []
        done = 0
        for offset, data in source(fd, segment):
            refs += [offset, self._keep(data)]
            done += len(data)
            self._meter.add(len(data))
        return refs, done == segment.length

    def _grid_pieces(self, fd: int, segment: Segment) -> Iterator[tuple[int, memoryview]]:
        window = self._buffers.window
        for offset, length in segment.chunks:
            got = _read_at(fd, window, offset, length)
            if got:
                yield offset, window[:got]

    def _content_pieces(self, fd: int, segment: Segment) -> Iterator[tuple[int, memoryview]]:
        window = self._buffers.window
        position, end = segment.start, segment.start + segment.length
        filled = 0
        while position < end:
            wanted = min(_WINDOW - filled, end - position - filled)
            got = _read_at(fd, window[filled:], position + filled, wanted)
            filled += got
            at_end = got < wanted or position + filled == end
            used = 0
            for offset, length in self._cutter.cut(window[:filled], at_end=at_end):
                yield position + offset, window[offset : offset + length]
                used = offset + length
            window[: filled - used] = window[used:filled]
            filled -= used
            position += used
            if got < wanted:
                return

    def _keep(self, data: memoryview) -> int:
        chunk, is_new = self._table.reserve(chunk_id(data, self._key), len(data))
        if is_new:
            self._store(data, [(chunk, 0)])
        return chunk

    def _store(self, data: memoryview, members: list[tuple[int, int]]) -> None:
        self._writer.add(data, members)
        with self._lock:
            self.new_bytes += len(data)

    def _describe(self, node: Node, fd: int, status: os.stat_result, *, torn: bool) -> None:
        """Metadata from the open file, so that it belongs to the content that was read."""
        describe_file(node, fd, status)
        if torn:
            node.entry.bits |= TORN
            node.ctime_ns = 0


def _by_directory(batch: list[Node]) -> Iterator[tuple[bytes, list[Node]]]:
    group: list[Node] = []
    for node in batch:
        if group and group[0].entry.parent != node.entry.parent:
            yield group[0].entry.parent, group
            group = []
        group.append(node)
    if group:
        yield group[0].entry.parent, group


def _status(fd: int) -> os.stat_result:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENOENT, "became something else while it was being opened")
    return status


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )


def _read_small(fd: int, target: memoryview, size: int) -> int:
    """Bytes read: `size` with one call, and one more if the file has grown."""
    try:
        done = os.preadv(fd, [target[: size + 1]], 0)
    except OSError:
        _status(fd)  # a FIFO by now cannot be read at an offset
        raise
    while done < size:
        got = os.preadv(fd, [target[done : size + 1]], done)
        if not got:
            break
        done += got
    return done


def _read_at(fd: int, target: memoryview, offset: int, wanted: int) -> int:
    """Bytes read; fewer than wanted only at the end of the file."""
    done = 0
    while done < wanted:
        got = os.preadv(fd, [target[done:wanted]], offset + done)
        if not got:
            break
        done += got
    return done
