"""Fetches blocks of packs, and hands on each chunk that has proven to be what was captured."""

import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from blake3 import blake3

from podferry_agent.snapshot.chunks import Block, ChunkTable
from podferry_agent.snapshot.codec import Codec
from podferry_agent.snapshot.errors import (
    DamageError,
    ObjectNotFoundError,
    SnapshotCorruptError,
    SnapshotMissingError,
)
from podferry_agent.snapshot.model import Entry, ObjectStore, display
from podferry_agent.snapshot.turns import Turns
from podferry_agent.snapshot.writing import StagedFile

_RANGE = 8 << 20
_GAP = 512 << 10  # a gap this small is cheaper to read than another request
_GETS_IN_FLIGHT = 4
_MANY = 8  # chunks of a block: writing so many small files is mostly interpreter work


@dataclass(slots=True)
class Piece:
    """A chunk that is needed, and every place it goes to."""

    chunk: int
    whole: list[tuple[bytes, Entry]] = field(default_factory=list)  # files that are this chunk
    parts: list[tuple[StagedFile, int]] = field(default_factory=list)  # and the offset in each
    done: bool = False

    def paths(self) -> Iterable[bytes]:
        yield from (entry.path for _, entry in self.whole)
        yield from (file.entry.path for file, _ in self.parts)


@dataclass(slots=True)
class WantedBlock:
    block: Block
    pieces: list[Piece]

    def missing(self) -> list[bytes]:
        """The files that lack something of it."""
        return [path for piece in self.pieces if not piece.done for path in piece.paths()]


@dataclass(slots=True)
class Failure:
    """What could not be had of a block."""

    wanted: WantedBlock
    error: DamageError


RightPiece = tuple[Piece, int, int]  # one that was checked, and its start and length in a block


class Sink(Protocol):
    """Takes chunks; called by several threads at once."""

    def write(self, raw: memoryview, right: list[RightPiece]) -> int:
        """Put chunks of one block in all their places; how many files that completed."""

    def wrote(self, size: int, files: int) -> None:
        """Told for each block what was written of it."""


class Fetcher:
    """Gets blocks in parallel; what is damaged is fetched once more before it is called so."""

    def __init__(
        self,
        store: ObjectStore,
        table: ChunkTable,
        key: bytes,
        sink: Sink,
        *,
        keep_going: bool,
    ) -> None:
        """`keep_going`: after damage, for what is whole."""
        self._store = store
        self._table = table
        self._key = key
        self._sink = sink
        self._keep_going = keep_going
        self._blocks: list[WantedBlock] = []
        self._codec = Codec()
        self._gets = threading.BoundedSemaphore(_GETS_IN_FLIGHT)
        # Gets wait for the network; more threads than processors would only disturb each other.
        self._processors = os.cpu_count() or 1
        self._turns = threading.BoundedSemaphore(self._processors)
        self._many = Turns(max(1, self._processors // 2))
        self._stop = threading.Event()

    def run(self, pieces: Iterable[Piece]) -> list[Failure]:
        """Fetch and write all pieces; returns what is damaged or missing in the store."""
        ranges = self._ranges(pieces)
        threads = min(_GETS_IN_FLIGHT + self._processors, 12)
        pool = ThreadPoolExecutor(threads, "pf-stage")
        failures: list[Failure] = []
        try:
            for future in [pool.submit(self._fetch, wanted) for wanted in ranges]:
                failures += future.result()
                if failures and not self._keep_going:
                    break
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
        return failures

    def damage(self, failure: Failure) -> DamageError:
        """The error that names the object and the files that need it."""
        error, pack = failure.error, failure.wanted.block.pack
        hit = [failure.wanted]
        if isinstance(error, SnapshotMissingError):
            hit = [wanted for wanted in self._blocks if wanted.block.pack is pack]
        files = sorted({path for wanted in hit for path in wanted.missing()})
        return type(error)(error.what, error.object_name, [display(path) for path in files])

    def _ranges(self, wanted: Iterable[Piece]) -> list[list[WantedBlock]]:
        """Runs of blocks that are read with one request each."""
        by_block: dict[int, list[Piece]] = {}
        for piece in wanted:
            by_block.setdefault(self._table.block_numbers[piece.chunk], []).append(piece)
        block_of = self._table.block_of
        blocks = [WantedBlock(block_of(pieces[0].chunk), pieces) for pieces in by_block.values()]
        self._blocks = blocks
        blocks.sort(key=_position)
        ranges: list[list[WantedBlock]] = []
        for block in blocks:
            if ranges and _joins(ranges[-1], block.block):
                ranges[-1].append(block)
            else:
                ranges.append([block])
        return ranges

    def _fetch(self, wanted: list[WantedBlock]) -> list[Failure]:
        if self._stop.is_set():
            return []
        again = []
        for failure in self._try(wanted):
            # Perhaps damaged on the way, not in the store: one more try.
            again += self._try([failure.wanted])
        return again

    def _try(self, wanted: list[WantedBlock]) -> list[Failure]:
        try:
            data = memoryview(self._get(wanted))
        except DamageError as error:
            return [Failure(each, error) for each in wanted]
        start = wanted[0].block.offset
        failures = []
        for each in wanted:
            if self._stop.is_set():
                break
            at = each.block.offset - start
            try:
                self._take(each, data[at : at + each.block.stored])
            except DamageError as error:
                failures.append(Failure(each, error))
        return failures

    def _take(self, wanted: WantedBlock, stored: memoryview) -> None:
        is_many = len(wanted.pieces) >= _MANY
        with self._turns:
            raw = self._codec.decode(wanted.block, stored)
            if not is_many:
                self._unpack(wanted, raw)
        if is_many:
            with self._many:
                self._unpack(wanted, raw)

    def _get(self, wanted: list[WantedBlock]) -> bytes:
        first, last = wanted[0].block, wanted[-1].block
        pack = first.pack
        length = last.offset + last.stored - first.offset
        try:
            with self._gets:
                data = self._store.get(pack.snapshot_id, pack.name, first.offset, length)
        except ObjectNotFoundError as error:
            raise SnapshotMissingError("no such pack", pack.name) from error
        if len(data) != length:
            what = f"{len(data)} bytes at {first.offset} instead of {length}"
            raise SnapshotCorruptError(f"the pack is too short: {what}", pack.name)
        return data

    def _unpack(self, wanted: WantedBlock, raw: bytes | bytearray | memoryview) -> None:
        """Write every chunk of a block that is right; raise if one is not."""
        view, key = memoryview(raw), self._key
        offsets, lengths, ids = self._table.offsets, self._table.lengths, self._table.ids
        right: list[RightPiece] = []
        size, is_damaged = 0, False
        for piece in wanted.pieces:
            if piece.done:  # before a second try
                continue
            chunk = piece.chunk
            start = offsets[chunk]
            data = view[start : start + lengths[chunk]]
            if blake3(data, key=key).digest() != ids[chunk]:
                is_damaged = True
                continue
            right.append((piece, start, len(data)))
            size += len(data) * (len(piece.whole) + len(piece.parts))
        files = self._sink.write(view, right)
        for piece, _, _ in right:
            piece.done = True
        self._sink.wrote(size, files)
        if is_damaged:
            name = wanted.block.pack.name
            raise SnapshotCorruptError("a chunk has other content than was captured", name)


def _position(wanted: WantedBlock) -> tuple[str, str, int]:
    pack = wanted.block.pack
    return pack.snapshot_id, pack.sha256, wanted.block.offset


def _joins(run: list[WantedBlock], block: Block) -> bool:
    first, last = run[0].block, run[-1].block
    if first.pack is not block.pack:
        return False
    is_near = block.offset - last.offset - last.stored <= _GAP
    return is_near and block.offset + block.stored - first.offset <= _RANGE
