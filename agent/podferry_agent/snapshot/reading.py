"""Reads files for a capture: stable, hashed, deduplicated, and stored where new."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice

from podferry_agent.snapshot.chunks import ChunkTable, chunk_id
from podferry_agent.snapshot.cutting import (
    MAX_CHUNK,
    MIB,
    SINGLE_CHUNK,
    Cutter,
    Extent,
    Segment,
    data_extents,
    has_hole,
    plan_segments,
)
from podferry_agent.snapshot.databases import MAGIC
from podferry_agent.snapshot.describe import describe_file
from podferry_agent.snapshot.listings import row_of
from podferry_agent.snapshot.model import HAS_HOLES, TORN, UNREADABLE, VANISHED, Entry
from podferry_agent.snapshot.pace import Pace
from podferry_agent.snapshot.packs import PackWriter
from podferry_agent.snapshot.plain import BATCH, Ahead, Joined, PlainReader
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.readcalls import is_same_state, read_at, read_small, status_of
from podferry_agent.snapshot.tree import VANISHED_ERRNOS, Tree, split_path
from podferry_agent.snapshot.turns import Turns
from podferry_agent.snapshot.walk import Node
from podferry_agent.snapshot.watch import LiveWatch, is_settled

SMALL = 1 * MIB  # files up to this size are joined to blocks
BATCH_FILES = 1000
LARGE_XATTR = 4 << 10
_ATTEMPTS = 3
_WINDOW = 2 * MAX_CHUNK


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.small = memoryview(bytearray(BATCH + 2 * SMALL + 1))
        self._window: memoryview | None = None

    @property
    def window(self) -> memoryview:
        if self._window is None:
            self._window = memoryview(bytearray(_WINDOW))
        return self._window


@dataclass(frozen=True)
class Reading:
    """One reading of a big file."""

    before: os.stat_result
    after: os.stat_result
    extents: list[Extent]
    refs: tuple[int, ...]
    is_whole: bool  # nothing was missing at the end


@dataclass(frozen=True)
class Chunking:
    """How contents become chunks of this capture."""

    table: ChunkTable
    writer: PackWriter
    key: bytes


class FileReader:
    """Fills the entries of regular files; its methods run in worker threads.

    With `watch` the tree is live: what others may be writing to is proven by a second reading.
    """

    def __init__(
        self, tree: Tree, chunking: Chunking, meter: Meter, pace: Pace, watch: LiveWatch | None
    ) -> None:
        self._tree = tree
        self._table = chunking.table
        self._writer = chunking.writer
        self._key = chunking.key
        self._meter = meter
        self._pace = pace
        self._watch = watch
        self._cutter = Cutter()
        self._plain = PlainReader(self._table, self._key, watch)
        self._buffers = _Buffers()
        self.turns = Turns(max(1, (os.cpu_count() or 1) // 2))  # to open small files, and to walk
        self.new_bytes = 0
        self._lock = threading.Lock()
        self.unreadable: list[tuple[bytes, int]] = []

    def read_small(self, batch: list[Node]) -> list[Node]:
        """Read a batch into one block; returns the nodes that turned out to be big or sparse."""
        joined = Joined(self._buffers.small, 0, [])
        with self.turns:
            postponed = self._read_all(batch, joined)
        if joined.members:
            self._store(joined.data[: joined.used], joined.members)
        self._pace.breathe()
        self._meter.add(sum(n.entry.size for n in batch), len(batch) - len(postponed))
        return postponed

    def _read_all(self, batch: list[Node], joined: Joined) -> list[Node]:
        postponed = []
        for directory, nodes in _by_directory(batch):
            try:
                with self._tree.directory(directory) as fd:
                    postponed += self._read_in(fd, nodes, joined)
            except OSError as error:
                for node in nodes:
                    self._failed(node, error)
        return postponed

    def _read_in(self, fd: int, nodes: list[Node], joined: Joined) -> list[Node]:
        """Files of one directory: most are plain, each other one by itself, all in their order."""
        read = partial(self._small, fd, joined)
        postponed, ahead, done = [], Ahead(), 0
        while done < len(nodes):
            count = ahead.take(node.entry.size for node in islice(nodes, done, None))
            wanted = nodes[done : done + count]
            taken = self._plain.read(fd, wanted, joined)
            is_odd = taken < len(wanted)
            if is_odd and not self.guarded(wanted[taken], read):
                postponed.append(wanted[taken])
            done += taken + is_odd
            ahead.note(is_odd=is_odd)
        return postponed

    def read_big(self, node: Node, workers: Executor) -> None:
        """Read one file in segments, which other workers take."""
        self.guarded(node, partial(self._big, workers))
        self._meter.add(0, 1)

    def read_as_it_is(self, node: Node, workers: Executor) -> None:
        """The content of a torn file that nothing better is known of."""
        self.guarded(node, partial(self._as_it_is, workers))

    def read_copy(self, node: Node, fd: int, copy: int, workers: Executor) -> None:
        """Take the metadata of a file from `fd`, and its content from an fd that nobody writes."""
        self._describe(node, fd, status_of(fd), torn=False)
        self._take(node, self._read_once(copy, node.entry.name, workers))

    def guarded(self, node: Node, read: Callable[[Node], bool]) -> bool:
        try:
            return read(node)
        except OSError as error:
            self._failed(node, error)
            return True

    def _failed(self, node: Node, error: OSError) -> None:
        if error.errno in VANISHED_ERRNOS:
            node.entry.bits |= VANISHED
            node.is_doubtful = True
            return
        node.entry.bits |= UNREADABLE
        node.entry.refs = ()
        node.is_doubtful = True
        with self._lock:
            self.unreadable.append((node.entry.path, error.errno or errno.EIO))

    def _small(self, directory_fd: int, joined: Joined, node: Node) -> bool:
        """False if the file has to take the way of big ones: also if something writes to it."""
        fd = self._tree.open_file(directory_fd, split_path(node.entry.path)[1])
        try:
            # Nothing happened to the file if it is after the read what the walk saw before.
            expected, size = node.row, node.entry.size
            target = joined.data[joined.used :]
            began_ns = time.time_ns()
            for _ in range(1 + _ATTEMPTS):
                if size >= len(target):
                    return False  # too many files of this batch have grown since the walk
                length = read_small(fd, target, size)
                after = status_of(fd)
                if after.st_size > SMALL or after.st_blocks * 512 < after.st_size:
                    return False
                found = row_of(after)
                is_stable = found == expected and length == size
                if is_stable:
                    break
                expected, size = found, after.st_size
            if self._watch and not (is_stable and is_settled(after.st_ctime_ns, began_ns)):
                return False
            if self._watch and target[: len(MAGIC)] == MAGIC:
                return False
            self._describe(node, fd, after, torn=not is_stable)
            # Attributes may take a block of their own, which hides that one is missing.
            has_attributes = node.entry.xattrs or node.entry.large_xattrs
            if has_attributes and has_hole(fd, 0, length):
                return False
            node.entry.size = length
            node.entry.refs = joined.join(joined.used, length, self._table, self._key)
        finally:
            os.close(fd)
        return True

    def _big(self, workers: Executor, node: Node) -> bool:
        directory, name = split_path(node.entry.path)
        with self._tree.file(directory, name) as fd:
            if self._watch and self._watch.takes_database(node, fd):
                return True
            for _ in range(_ATTEMPTS):
                reading, is_good = self._attempt(node, fd, workers)
                if is_good:
                    break
            status = reading.before if reading else status_of(fd)
            self._describe(node, fd, status, torn=not is_good)
        if reading:
            self._take(node, reading)
        return True

    def _as_it_is(self, workers: Executor, node: Node) -> bool:
        directory, name = split_path(node.entry.path)
        with self._tree.file(directory, name) as fd:
            self._take(node, self._read_once(fd, name, workers))
        return True

    def _take(self, node: Node, reading: Reading) -> None:
        node.entry.size = reading.before.st_size
        node.entry.refs = reading.refs
        if sum(length for _, length in reading.extents) < reading.before.st_size:
            node.entry.bits |= HAS_HOLES

    def _attempt(self, node: Node, fd: int, workers: Executor) -> tuple[Reading | None, bool]:
        """A reading, and whether it is what the file was at some moment.

        No reading of a mapped file that does not hold still: it would be stored for nothing.
        """
        began_ns = time.time_ns()
        is_mapped = self._watch is not None and self._watch.is_mapped(node)
        if is_mapped and self._fingerprint(fd) != self._fingerprint(fd):
            return None, False
        reading = self._read_once(fd, node.entry.name, workers)
        if not reading.is_whole:
            return reading, False
        is_same = is_same_state(reading.before, reading.after)
        if self._watch is None:
            return reading, is_same
        if is_same and not is_mapped and is_settled(reading.after.st_ctime_ns, began_ns):
            return reading, True
        return reading, self._reads_the_same(fd, reading)

    def _read_once(self, fd: int, name: bytes, workers: Executor) -> Reading:
        before = status_of(fd)
        extents = data_extents(fd, before)
        refs, is_whole = self._segments(fd, name, before.st_size, extents, workers)
        return Reading(before, os.fstat(fd), extents, refs, is_whole)

    def _reads_the_same(self, fd: int, reading: Reading) -> bool:
        """Whether a second reading finds the same bytes, apart from what was appended.

        Then the file had just this content between the two readings, whatever its times say.
        """
        window = self._buffers.window
        for offset, chunk in zip(reading.refs[::2], reading.refs[1::2], strict=True):
            length = self._table.lengths[chunk]
            if read_at(fd, window, offset, length) < length:
                return False
            if chunk_id(window[:length], self._key) != self._table.ids[chunk]:
                return False
            self._pace.breathe()
        size = os.fstat(fd).st_size
        return (
            size >= reading.before.st_size and data_extents(fd, reading.before) == reading.extents
        )

    def _fingerprint(self, fd: int) -> list[bytes]:
        """What the file holds, without storing any of it."""
        window, offset = self._buffers.window, 0
        found: list[bytes] = []
        while got := read_at(fd, window, offset, len(window)):
            found.append(chunk_id(window[:got], self._key))
            offset += got
            self._pace.breathe()
        return found

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
            self._pace.breathe()
        return refs, done == segment.length

    def _grid_pieces(self, fd: int, segment: Segment) -> Iterator[tuple[int, memoryview]]:
        window = self._buffers.window
        for offset, length in segment.chunks:
            got = read_at(fd, window, offset, length)
            if got:
                yield offset, window[:got]

    def _content_pieces(self, fd: int, segment: Segment) -> Iterator[tuple[int, memoryview]]:
        window = self._buffers.window
        position, end = segment.start, segment.start + segment.length
        filled = 0
        while position < end:
            wanted = min(_WINDOW - filled, end - position - filled)
            got = read_at(fd, window[filled:], position + filled, wanted)
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

    def keep_large_attributes(self, entry: Entry) -> None:
        """Make chunks of large values: in a page they would be stored again with each change."""
        if not any(len(value) > LARGE_XATTR for _, value in entry.xattrs):
            return
        large = [(name, value) for name, value in entry.xattrs if len(value) > LARGE_XATTR]
        entry.large_xattrs = tuple((name, self._keep(memoryview(value))) for name, value in large)
        entry.xattrs = tuple(x for x in entry.xattrs if len(x[1]) <= LARGE_XATTR)

    def _store(self, data: memoryview, members: list[tuple[int, int]]) -> None:
        self._writer.add(data, members)
        with self._lock:
            self.new_bytes += len(data)

    def _describe(self, node: Node, fd: int, status: os.stat_result, *, torn: bool) -> None:
        """Metadata from the open file, so that it belongs to the content that was read."""
        describe_file(node, fd, status)
        self.keep_large_attributes(node.entry)
        if torn:
            node.entry.bits |= TORN
            node.is_doubtful = True
        if self._watch:
            self._watch.saw(node, torn=torn)


def _by_directory(batch: list[Node]) -> Iterator[tuple[bytes, list[Node]]]:
    group: list[Node] = []
    for node in batch:
        if group and group[0].entry.parent != node.entry.parent:
            yield group[0].entry.parent, group
            group = []
        group.append(node)
    if group:
        yield group[0].entry.parent, group
