"""Where a big file is cut into chunks. Any cut is valid; a good one finds what did not change."""

import errno
import json
import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyfastcdc import FastCDC

MIB = 1 << 20
GRID = MIB  # what is read, hashed and compressed at once stays in a core's own cache
SINGLE_CHUNK = MIB  # a file up to this size is one chunk
MAX_CHUNK = 2 * MIB
_GRID_SEGMENT = 16 * MIB  # small, so that at the end of a capture no reader works alone for long
_CDC_SEGMENT = 128 * MIB
_MAX_TENSOR_HEADER = 32 * MIB
_ELF = b"\x7fELF"
# Changed in place, page by page: content-defined cuts would find nothing, small cuts a little.
_IN_PLACE = (b".db", b".sqlite", b".sqlite3", b".img", b".qcow2", b".mdb", b".raw")

Extent = tuple[int, int]  # offset, length


@dataclass(frozen=True)
class Segment:
    """Work for one reader: known chunks, or a span whose content decides the cuts."""

    start: int
    length: int
    chunks: tuple[Extent, ...] = ()


def data_extents(fd: int, status: os.stat_result) -> list[Extent]:
    """The parts of a file that are not holes. A 4 TB file with one page of data is one page."""
    size = status.st_size
    extents = []
    position = 0
    while position < size:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                break
            if error.errno == errno.EINVAL:  # the filesystem does not know holes
                return [(0, size)]
            raise
        end = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        if start >= size:
            break
        extents.append((start, end - start))
        position = end
    return extents


def has_hole(fd: int, start: int, end: int) -> bool:
    """Whether some of that part of a file is not on the disk, though it reads as zeros."""
    if start == end:
        return False
    try:
        return os.lseek(fd, start, os.SEEK_HOLE) < end
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENXIO):  # no holes here; or the file has shrunk
            return False
        raise


def plan_segments(fd: int, name: bytes, size: int, extents: list[Extent]) -> Iterator[Segment]:
    """Cut a file into segments that readers can take in parallel."""
    if extents != [(0, size)] or name.endswith(_IN_PLACE) or _is_program(fd):
        yield from _grouped(_aligned_grid(extents))
        return
    starts = _tensor_starts(fd, size) if name.endswith(b".safetensors") else None
    if starts is None:
        yield from _spans(size)
        return
    ends = [*starts[1:], size]
    tensors = [(start, end - start) for start, end in zip(starts, ends, strict=True)]
    yield from _grouped(_grid_from_start(tensors))


def _is_program(fd: int) -> bool:
    """Of a program or library another build differs everywhere: looking for cuts is lost time."""
    return os.pread(fd, len(_ELF), 0) == _ELF


def _spans(size: int) -> Iterator[Segment]:
    for start in range(0, size, _CDC_SEGMENT):
        yield Segment(start, min(_CDC_SEGMENT, size - start))


def _grouped(chunks: Iterator[Extent]) -> Iterator[Segment]:
    group: list[Extent] = []
    total = 0
    for offset, length in chunks:
        group.append((offset, length))
        total += length
        if total >= _GRID_SEGMENT:
            yield Segment(group[0][0], total, tuple(group))
            group, total = [], 0
    if group:
        yield Segment(group[0][0], total, tuple(group))


def _grid_from_start(extents: list[Extent]) -> Iterator[Extent]:
    for offset, length in extents:
        for start in range(offset, offset + length, GRID):
            yield start, min(GRID, offset + length - start)


def _aligned_grid(extents: list[Extent]) -> Iterator[Extent]:
    for offset, length in extents:
        position, end = offset, offset + length
        while position < end:
            upto = min(end, (position // GRID + 1) * GRID)
            yield position, upto - position
            position = upto


def _tensor_starts(fd: int, size: int) -> list[int] | None:
    """Where the tensors of a safetensors file begin, merged to at least 1 MiB; None if it is none.

    A tensor keeps its cuts when the header before it grows, or another tensor is replaced.
    """
    head = os.pread(fd, 8, 0)
    if len(head) < 8:
        return None
    length = struct.unpack("<Q", head)[0]
    if not 2 <= length <= min(_MAX_TENSOR_HEADER, size - 8):
        return None
    try:
        tensors = json.loads(os.pread(fd, length, 8))
        offsets = [t["data_offsets"][0] for key, t in tensors.items() if key != "__metadata__"]
        starts = sorted({0, 8 + length, *(8 + length + int(offset) for offset in offsets)})
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None
    if starts[-1] > size:
        return None
    return _merged(starts, size)


def _merged(starts: list[int], size: int) -> list[int]:
    kept = [0]
    for start in starts[1:]:
        if start - kept[-1] >= MIB and start < size:
            kept.append(start)
    return kept


class Cutter(threading.local):
    """Content-defined cuts; one chunker per thread, as it is not safe to share."""

    @cached_property
    def _chunker(self) -> "FastCDC":
        # Most saves find no big file that changed, and it takes long to load.
        from pyfastcdc import FastCDC  # noqa: PLC0415

        return FastCDC(MIB, min_size=MIB // 4, max_size=MAX_CHUNK)

    def cut(self, window: memoryview, *, at_end: bool) -> list[Extent]:
        """Chunks of the window; without the last one, which needs more data, unless at the end."""
        chunks = [(c.offset, c.length) for c in self._chunker.cut_buf(window)]
        return chunks if at_end else chunks[:-1]
