"""Staging: fetches everything that differs to files beside the tree, checked chunk by chunk.

The live tree is not touched here. A run that was killed finds its staged files again and fetches
only what they lack.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.chunks import Block, ChunkTable, chunk_id
from podferry_agent.snapshot.codec import Codec
from podferry_agent.snapshot.compare import missing_chunks, pairs
from podferry_agent.snapshot.errors import (
    DamageError,
    DiskFullError,
    ObjectNotFoundError,
    SnapshotCorruptError,
    SnapshotMissingError,
)
from podferry_agent.snapshot.metadata import MetadataWriter
from podferry_agent.snapshot.model import (
    AGENT_DIRECTORY,
    TEMPORARY_PREFIX,
    Entry,
    ObjectStore,
    TreeSpec,
    display,
)
from podferry_agent.snapshot.progress import Meter

_RANGE = 16 << 20
_GAP = 512 << 10  # a gap this small is cheaper to read than another request
_GETS_IN_FLIGHT = 4
_FILE_LOCKS = 64


class StageDirectory:
    """Where staged files wait. On the same mount as the tree, so that a rename moves them in."""

    def __init__(self, spec: TreeSpec) -> None:
        below = (
            AGENT_DIRECTORY[1:] + b"/stage"
            if spec.kind == "environment"
            else (TEMPORARY_PREFIX + b"stage")
        )
        self.path = Path(os.fsdecode(spec.tree_root)) / os.fsdecode(below)
        self._made = [p for p in (self.path, self.path.parent) if not p.exists()]
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        _drop_default_acl(self.fd)

    @staticmethod
    def name_of(path: bytes) -> bytes:
        """Short and independent of the file's own name."""
        return hashlib.blake2b(path, digest_size=20).hexdigest().encode()

    def names(self) -> set[bytes]:
        with os.scandir(self.fd) as found:
            return {os.fsencode(entry.name) for entry in found}

    def room(self) -> int:
        status = os.statvfs(self.fd)
        return status.f_bavail * status.f_frsize

    def remove(self) -> None:
        """Take the directory away again, and its parent if that was made for it."""
        shutil.rmtree(self.path, ignore_errors=True)
        for path in self._made[1:]:
            with contextlib.suppress(OSError):  # in use by the agent for something else
                path.rmdir()

    def close(self) -> None:
        os.close(self.fd)


def _drop_default_acl(fd: int) -> None:
    """Staged files would inherit it, and a new file is taken to have no attributes yet."""
    try:
        os.removexattr(fd, "system.posix_acl_default")
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOSYS):
            raise


@dataclass(slots=True)
class StagedFile:
    entry: Entry
    name: bytes
    waiting: int  # chunks that are not in place yet
    exists: bool = False


@dataclass(slots=True)
class Piece:
    """A chunk that is needed, and every place it goes to."""

    chunk: int
    places: list[tuple[StagedFile, int]]
    done: bool = False


@dataclass(slots=True)
class Range:
    """Blocks of one pack that are read with one request."""

    blocks: list[Block]
    pieces: list[list[Piece]]

    @property
    def start(self) -> int:
        return self.blocks[0].offset

    @property
    def length(self) -> int:
        return self.blocks[-1].offset + self.blocks[-1].stored - self.start

    def files(self) -> list[str]:
        paths = {f.entry.path for ps in self.pieces for p in ps for f, _ in p.places}
        return [display(path) for path in sorted(paths)]


class Stager:
    """Fills a stage directory with entries."""

    def __init__(
        self,
        stage: StageDirectory,
        store: ObjectStore,
        table: ChunkTable,
        key: bytes,
        metadata: MetadataWriter,
    ) -> None:
        self.written_bytes = 0
        self._stage = stage
        self._store = store
        self._table = table
        self._key = key
        self._metadata = metadata
        self._codec = Codec()
        self._slots = threading.BoundedSemaphore(_GETS_IN_FLIGHT)
        self._file_locks = [threading.Lock() for _ in range(_FILE_LOCKS)]
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run(self, entries: list[Entry], meter: Meter, step: Callable[[str], None]) -> None:
        """Stage all entries, or raise with nothing of the tree changed."""
        self._meter, self._step = meter, step
        ranges = self._prepare(entries)
        total = sum(b.raw for r in ranges for b in r.blocks)
        if total > self._stage.room():
            raise DiskFullError(
                f"{total} bytes have to be staged, the disk has {self._stage.room()} free"
            )
        meter.phase("stage", sum(e.size for e in entries), len(entries))
        pool = ThreadPoolExecutor(min(8, max(2, os.cpu_count() or 1)), "pf-stage")
        try:
            for future in [pool.submit(self._fetch, r, ranges) for r in ranges]:
                future.result()
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
        posix.syncfs(self._stage.fd)
        meter.finish()

    def _prepare(self, entries: list[Entry]) -> list[Range]:
        leftovers = self._stage.names()
        wanted: set[bytes] = set()
        pieces: dict[int, Piece] = {}
        for entry in entries:
            file = StagedFile(entry, self._stage.name_of(entry.path), 0)
            missing = self._missing(file, leftovers)
            file.waiting = len(missing)
            if not missing:
                self._finish(file)
            wanted.add(file.name)
            for offset, chunk in missing:
                piece = pieces.get(chunk)
                if piece is None:
                    piece = pieces[chunk] = Piece(chunk, [])
                piece.places.append((file, offset))
        for name in leftovers - wanted:
            os.unlink(name, dir_fd=self._stage.fd)
        return self._ranges(pieces.values())

    def _missing(self, file: StagedFile, leftovers: set[bytes]) -> list[tuple[int, int]]:
        """What a file still needs; one that a killed run left keeps the chunks that are right."""
        entry = file.entry
        if file.name in leftovers:
            fd = self._open(file, os.O_RDWR)
            try:
                if os.fstat(fd).st_size == entry.size:
                    file.exists = True
                    return missing_chunks(fd, entry, self._table, self._key)
            finally:
                os.close(fd)
            os.unlink(file.name, dir_fd=self._stage.fd)
        return list(pairs(entry.refs))

    def _ranges(self, pieces: Iterable[Piece]) -> list[Range]:
        by_block: dict[int, list[Piece]] = {}
        for piece in pieces:
            by_block.setdefault(self._table.block_numbers[piece.chunk], []).append(piece)
        blocks = [(self._table.block_of(p[0].chunk), p) for p in by_block.values()]
        blocks.sort(key=lambda row: (row[0].pack.snapshot_id, row[0].pack.sha256, row[0].offset))
        ranges: list[Range] = []
        for block, wanted in blocks:
            if ranges and _joins(ranges[-1], block):
                ranges[-1].blocks.append(block)
                ranges[-1].pieces.append(wanted)
            else:
                ranges.append(Range([block], [wanted]))
        return ranges

    def _fetch(self, wanted: Range, ranges: list[Range]) -> None:
        if self._stop.is_set():
            return
        try:
            self._fetch_once(wanted, ranges)
        except SnapshotCorruptError:
            # Perhaps damaged on the way, not in the store: one more try.
            try:
                self._fetch_once(wanted, ranges)
            except DamageError as error:
                raise type(error)(str(error), error.object_name, wanted.files()) from error

    def _fetch_once(self, wanted: Range, ranges: list[Range]) -> None:
        pack = wanted.blocks[0].pack
        try:
            with self._slots:
                data = self._store.get(pack.snapshot_id, pack.name, wanted.start, wanted.length)
        except ObjectNotFoundError as error:
            hit = sorted({f for r in ranges if r.blocks[0].pack is pack for f in r.files()})
            raise SnapshotMissingError("no such pack", pack.name, hit) from error
        if len(data) != wanted.length:
            what = f"{len(data)} bytes at {wanted.start} instead of {wanted.length}"
            raise SnapshotCorruptError(f"the pack is too short: {what}", pack.name)
        for block, pieces in zip(wanted.blocks, wanted.pieces, strict=True):
            start = block.offset - wanted.start
            raw = memoryview(self._codec.decode(block, data[start : start + block.stored]))
            # A second try after damage finds some written.
            written = sum(self._write(p, raw, pack.name) for p in pieces if not p.done)
            with self._lock:
                self.written_bytes += written
            self._meter.add(written)

    def _write(self, piece: Piece, raw: memoryview, name: str) -> int:
        """Bytes written: the chunk, in all its places."""
        offset = self._table.offsets[piece.chunk]
        data = raw[offset : offset + self._table.lengths[piece.chunk]]
        if chunk_id(data, self._key) != self._table.ids[piece.chunk]:
            raise SnapshotCorruptError("a chunk has other content than was captured", name)
        for file, position in piece.places:
            if len(file.entry.refs) == 2 and len(data) == file.entry.size:
                self._write_whole(file, data)
            else:
                self._write_chunk(file, data, position)
        piece.done = True
        return len(data) * len(piece.places)

    def _write_whole(self, file: StagedFile, data: memoryview) -> None:
        """A file of one chunk, which no other thread touches: most files are like this."""
        fd = self._open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            _write_at(fd, data, 0)
            self._metadata.apply_new(fd, file.entry)
        finally:
            os.close(fd)
        self._step("stage")

    def _write_chunk(self, file: StagedFile, data: memoryview, position: int) -> None:
        with self._file_locks[hash(file.name) % _FILE_LOCKS]:
            fd = self._open(file, os.O_WRONLY if file.exists else os.O_RDWR | os.O_CREAT)
            try:
                if not file.exists:
                    os.ftruncate(fd, file.entry.size)
                    file.exists = True
                _write_at(fd, data, position)
                file.waiting -= 1
                if not file.waiting:
                    self._complete(file, fd)
            finally:
                os.close(fd)

    def _finish(self, file: StagedFile) -> None:
        """A file that needs no chunk: empty, all holes, or staged by an earlier run."""
        fd = self._open(file, os.O_RDWR | os.O_CREAT)
        try:
            os.ftruncate(fd, file.entry.size)
            self._complete(file, fd)
        finally:
            os.close(fd)

    def _complete(self, file: StagedFile, fd: int) -> None:
        self._metadata.apply_fd(fd, file.entry)
        self._step("stage")

    def _open(self, file: StagedFile, flags: int) -> int:
        return os.open(
            file.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._stage.fd
        )


def _joins(last: Range, block: Block) -> bool:
    if last.blocks[0].pack is not block.pack:
        return False
    end = last.start + last.length
    return block.offset - end <= _GAP and block.offset + block.stored - last.start <= _RANGE


def _write_at(fd: int, data: memoryview, position: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], position + done)
