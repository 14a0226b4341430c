"""Says whether what is on the disk is what the snapshot has."""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from functools import cached_property

from blake3 import blake3

from podferry_agent.snapshot.chunks import ChunkTable, chunk_id
from podferry_agent.snapshot.cutting import has_hole
from podferry_agent.snapshot.model import HAS_HOLES, Entry
from podferry_agent.snapshot.scanning import FileStatus

_BUFFER = 8 << 20


class _Buffer(threading.local):
    @cached_property
    def view(self) -> memoryview:
        """Made when a thread first needs it: clearing it takes longer than importing us."""
        return memoryview(bytearray(_BUFFER))


_buffer = _Buffer()


def small_buffer() -> memoryview:
    """Room of this thread for files that are read together."""
    return _buffer.view


def metadata_changes(want: Entry, live: Entry) -> list[str]:
    """Which kinds of metadata differ; the entries are of the same type."""
    pairs = [
        ("mode", stat.S_IMODE(want.mode), stat.S_IMODE(live.mode)),
        ("owner", (want.uid, want.gid), (live.uid, live.gid)),
        ("mtime", want.mtime_ns, live.mtime_ns),
        ("xattrs", want.xattrs, live.xattrs),
        ("flags", want.flags, live.flags),
        ("node", want.rdev, live.rdev),
        ("target", want.target, live.target),
    ]
    return [kind for kind, wanted, found in pairs if wanted != found]


def same_status(want: Entry, found: FileStatus) -> bool:
    """Whether type, rights, owner and time are those of an entry: all that `lstat` tells."""
    return (
        want.mtime_ns == found.st_mtime_ns
        and want.mode == found.st_mode
        and want.uid == found.st_uid
        and want.gid == found.st_gid
    )


def same_type(want: Entry, mode: int) -> bool:
    return stat.S_IFMT(want.mode) == stat.S_IFMT(mode)


def missing_chunks(fd: int, entry: Entry, table: ChunkTable, key: bytes) -> list[tuple[int, int]]:
    """(file offset, chunk number) of the chunks that the open file does not have in place."""
    return [
        (offset, chunk)
        for offset, chunk in pairs(entry.refs)
        if not _has_chunk(fd, offset, table, chunk, key)
    ]


def is_one_chunk(entry: Entry, table: ChunkTable) -> bool:
    """Whether a file is one chunk and nothing else: most files are."""
    refs = entry.refs
    return len(refs) == 2 and not refs[0] and table.lengths[refs[1]] == entry.size


def has_content(fd: int, entry: Entry, table: ChunkTable, key: bytes, *, exact_holes: bool) -> bool:
    """Whether every byte of an open file is right, and there are no more.

    With `exact_holes`, holes must be holes and zeros that were written must be on the disk.
    """
    size, refs = entry.size, entry.refs
    if len(refs) == 2 and size < _BUFFER and not refs[0] and table.lengths[refs[1]] == size:
        view = _buffer.view[: size + 1]
        if os.readv(fd, (view,)) == size:  # else it has another size, or was read in part
            is_right = blake3(view[:size], key=key).digest() == table.ids[refs[1]]
            return is_right and not (exact_holes and has_hole(fd, 0, size))
    if os.fstat(fd).st_size != entry.size:
        return False
    if entry.bits & HAS_HOLES and not _has_holes(fd, entry, table, exact=exact_holes):
        return False
    if exact_holes and any(has_hole(fd, *covered) for covered in _covered(entry, table)):
        return False
    return all(_has_chunk(fd, o, table, c, key) for o, c in pairs(entry.refs))


def _covered(entry: Entry, table: ChunkTable) -> Iterator[tuple[int, int]]:
    """(start, end) of the parts between holes.

    Not chunk by chunk: tmpfs looks at each page up to the next hole, which takes seconds then.
    """
    start = 0
    for hole_start, hole_end in holes(entry, table):
        if hole_start > start:
            yield start, hole_start
        start = hole_end
    if start < entry.size:
        yield start, entry.size


def pairs(refs: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    return zip(refs[::2], refs[1::2], strict=True)


def _has_chunk(fd: int, offset: int, table: ChunkTable, chunk: int, key: bytes) -> bool:
    length = table.lengths[chunk]
    view = _buffer.view if length <= _BUFFER else memoryview(bytearray(length))
    done = 0
    while done < length:
        got = os.preadv(fd, [view[done:length]], offset + done)
        if not got:
            return False
        done += got
    return chunk_id(view[:length], key) == table.ids[chunk]


def _has_holes(fd: int, entry: Entry, table: ChunkTable, *, exact: bool) -> bool:
    for start, end in holes(entry, table):
        position = _next_data(fd, start, end)
        if position < end and (exact or not _is_zero(fd, position, end)):
            return False
    return True


def holes(entry: Entry, table: ChunkTable) -> Iterator[tuple[int, int]]:
    """(start, end) of the parts that no chunk covers."""
    position = 0
    for offset, chunk in pairs(entry.refs):
        if offset > position:
            yield position, offset
        position = max(position, offset + table.lengths[chunk])
    if position < entry.size:
        yield position, entry.size


def _next_data(fd: int, start: int, end: int) -> int:
    try:
        return os.lseek(fd, start, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return end
        if error.errno == errno.EINVAL:
            return start
        raise


def _is_zero(fd: int, start: int, end: int) -> bool:
    position = start
    while position < end:
        piece = os.pread(fd, min(1 << 20, end - position), position)
        if not piece or piece.count(0) != len(piece):
            return False
        position += len(piece)
    return True
