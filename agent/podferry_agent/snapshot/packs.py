"""Packs: the objects that hold file contents, and the writer that fills and uploads them."""

import ctypes
import hashlib
import mmap
import struct
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import zstandard

from podferry_agent.snapshot.chunks import Block, ChunkTable, Pack
from podferry_agent.snapshot.codec import Codec, checksum
from podferry_agent.snapshot.cutting import MAX_CHUNK
from podferry_agent.snapshot.errors import (
    OutOfTimeError,
    SnapshotCorruptError,
    UnsupportedFormatError,
)
from podferry_agent.snapshot.model import ObjectStore
from podferry_agent.snapshot.sections import (
    pack_column,
    read_sections,
    unpack_column,
    write_sections,
)
from podferry_agent.snapshot.timelimit import Span, TimeLimit

PACK_TARGET = 8 << 20  # a pack is closed when it has this much; with its last block under 17 MiB
PUTS_IN_FLIGHT = 4
# When time is short: of what is on its way when it is over nothing counts.
_HURRIED_TARGET, _HURRIED_PUTS = 2 << 20, 2
_LOOK = 0.1
_MAX_CHUNKS = 1 << 16  # closes a pack of tiny files, whose footer would outgrow its content
_BUFFER = PACK_TARGET + MAX_CHUNK + (4 << 20)  # the last block and the footer fit in
_TRAILER = struct.Struct("<IIII8s")  # stored, raw, crc32 of the stored footer, version, magic
_MAGIC = b"PFPACK\r\n"
_VERSION = 1


@dataclass
class OpenPack:
    """A pack that is being filled: its blocks, and which chunks are in them."""

    pack: Pack
    buffer: memoryview
    target: int = PACK_TARGET
    blocks: list[Block] = field(default_factory=list)
    chunks: list[tuple[bytes, int, int, int]] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.size >= self.target or len(self.chunks) >= _MAX_CHUNKS

    def append(self, data: bytes | memoryview) -> None:
        end = self.size + len(data)
        if end > len(self.buffer):
            raise AssertionError("a block and a footer always fit into the room of a pack")
        if isinstance(data, bytes):
            # Unlike an assignment this gives the interpreter's lock back meanwhile.
            place = ctypes.c_char.from_buffer(self.buffer, self.size)
            ctypes.memmove(ctypes.addressof(place), data, len(data))
        else:
            self.buffer[self.size : end] = data
        self.size = end


def seal(open_pack: OpenPack) -> tuple[memoryview, bytes]:
    """(the whole object, its footer with trailer); sets the pack's name and size."""
    footer = _footer(open_pack)
    open_pack.append(footer)
    body = open_pack.buffer[: open_pack.size]
    open_pack.pack.sha256 = hashlib.sha256(body).hexdigest()
    open_pack.pack.size = len(body)
    return body, footer


def _footer(open_pack: OpenPack) -> bytes:
    blocks, chunks = open_pack.blocks, open_pack.chunks
    raw = write_sections(
        [
            (b"BOFF", pack_column("Q", [b.offset for b in blocks])),
            (b"BSTO", pack_column("I", [b.stored for b in blocks])),
            (b"BRAW", pack_column("I", [b.raw for b in blocks])),
            (b"BCOD", pack_column("B", [b.codec for b in blocks])),
            (b"BSUM", pack_column("I", [b.checksum for b in blocks])),
            (b"CIDS", b"".join(c[0] for c in chunks)),
            (b"CLEN", pack_column("I", [c[1] for c in chunks])),
            (b"CBLK", pack_column("I", [c[2] for c in chunks])),
            (b"COFF", pack_column("I", [c[3] for c in chunks])),
        ]
    )
    stored = zstandard.ZstdCompressor(level=1).compress(raw)
    trailer = _TRAILER.pack(len(stored), len(raw), zlib.crc32(stored), _VERSION, _MAGIC)
    return stored + trailer


def load_footer(pack: Pack, tail: bytes, table: ChunkTable) -> None:
    """Learn a pack's chunks from the last bytes of it: rebuilds an index that was lost."""
    if len(tail) < _TRAILER.size:
        raise SnapshotCorruptError("the pack is shorter than its trailer", pack.name)
    stored, raw, crc32, version, magic = _TRAILER.unpack(tail[-_TRAILER.size :])
    if magic != _MAGIC:
        raise SnapshotCorruptError("the pack does not end as a pack does", pack.name)
    if version != _VERSION:
        raise UnsupportedFormatError(f"{pack.name}: pack version {version}; use a newer agent")
    body = tail[-_TRAILER.size - stored : -_TRAILER.size]
    if len(body) != stored or zlib.crc32(body) != crc32:
        raise SnapshotCorruptError("the pack's footer has other bytes", pack.name)
    columns = read_sections(zstandard.ZstdDecompressor().decompress(body, max_output_size=raw))
    _learn(pack, columns, table)


def _learn(pack: Pack, columns: dict[bytes, bytes], table: ChunkTable) -> None:
    rows = zip(
        unpack_column("Q", columns[b"BOFF"]),
        unpack_column("I", columns[b"BSTO"]),
        unpack_column("I", columns[b"BRAW"]),
        unpack_column("B", columns[b"BCOD"]),
        unpack_column("I", columns[b"BSUM"]),
        strict=True,
    )
    numbers = [table.add_block(Block(pack, *row)) for row in rows]
    ids = columns[b"CIDS"]
    chunks = zip(
        unpack_column("I", columns[b"CLEN"]),
        unpack_column("I", columns[b"CBLK"]),
        unpack_column("I", columns[b"COFF"]),
        strict=True,
    )
    for index, (length, block, offset) in enumerate(chunks):
        table.add(ids[32 * index : 32 * index + 32], length, numbers[block], offset)


class _Buffers:
    """Room for packs, used again: fresh memory costs more than all that is done with it."""

    def __init__(self) -> None:
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        return self._free.pop() if self._free else memoryview(mmap.mmap(-1, _BUFFER))

    def give(self, buffer: memoryview) -> None:
        self._free.append(buffer)


class PackWriter:
    """Joins blocks to packs and uploads them, at most four at once; shared by all readers.

    `add` blocks while four uploads run, which bounds the memory of a capture. It raises
    `OutOfTimeError` when there is no time to read more, `finish` when there is none to upload.
    """

    def __init__(
        self,
        snapshot_id: str,
        store: ObjectStore,
        table: ChunkTable,
        confirmed: Callable[[Pack, bytes], None],
        span: Span | None = None,
        prove: "Callable[[OpenPack, memoryview], None] | None" = None,
    ) -> None:
        """`prove` is told each pack, and its body, before that is uploaded."""
        self.packs: list[Pack] = []
        self.stored_bytes = 0
        self._snapshot_id = snapshot_id
        self._store = store
        self._table = table
        self._confirmed = confirmed
        self._prove = prove
        self._lock = threading.Lock()
        self._span = span or TimeLimit().begin()
        puts = _HURRIED_PUTS if self._span.is_hurried else PUTS_IN_FLIGHT
        self._slots = threading.BoundedSemaphore(puts)
        self._uploads = ThreadPoolExecutor(puts, "pf-put")
        self._running: list[Future[None]] = []
        self._unsent: list[OpenPack] = []
        self._unstored: dict[int, Pack] = {}  # by id: those not known to be stored
        self._buffers = _Buffers()
        self._open = self._new_pack()
        self._codec = Codec()

    def add(self, data: bytes | memoryview, members: list[tuple[int, int]]) -> None:
        """Store one block that holds the chunks (number, offset) and say where they are."""
        codec, stored = self._codec.encode(data)
        block_checksum = checksum(stored)
        full = None
        with self._lock:
            target = self._open
            block = Block(target.pack, target.size, len(stored), len(data), codec, block_checksum)
            target.append(stored)
            number, ids, lengths = len(target.blocks), self._table.ids, self._table.lengths
            target.chunks += [(ids[c], lengths[c], number, offset) for c, offset in members]
            target.blocks.append(block)
            if target.is_full:
                full, self._open = target, self._new_pack()
        self._table.place(block, members)
        if full:
            try:
                self._send(full, self._span.check_reading)
            except OutOfTimeError:
                self._unsent.append(full)
                raise

    def finish(self) -> None:
        """Upload what is left and wait; raises what any upload raised."""
        with self._lock:
            last, self._open = self._open, self._new_pack()
            left, self._unsent = [*self._unsent, last], []
        for each in left:
            if each.blocks:
                self._send(each, self._span.check_sending)
        for upload in self._running:
            while not upload.done():
                wait([upload], _LOOK)
                self._span.check_sending()
            upload.result()

    def unstored(self) -> frozenset[int]:
        """The ids of the packs of this writer whose uploads have not ended."""
        with self._lock:
            return frozenset(self._unstored)

    def close(self, *, wait: bool = True) -> None:
        """Start no more uploads, and wait for those that run."""
        self._uploads.shutdown(wait=wait, cancel_futures=True)

    def _new_pack(self) -> OpenPack:
        pack = Pack(self._snapshot_id)
        self._unstored[id(pack)] = pack
        target = _HURRIED_TARGET if self._span.is_hurried else PACK_TARGET
        return OpenPack(pack, self._buffers.take(), target)

    def _send(self, full: OpenPack, check: Callable[[], None]) -> None:
        while not self._slots.acquire(timeout=_LOOK):
            check()
        try:
            self._raise_failed()
            body, footer = seal(full)
            if self._prove:
                self._prove(full, body)
            upload = self._uploads.submit(self._put, full, body, footer)
        except BaseException:
            self._slots.release()
            raise
        with self._lock:
            self._running.append(upload)

    def _put(self, full: OpenPack, body: memoryview, footer: bytes) -> None:
        pack = full.pack
        try:
            self._store.put(pack.name, body, pack.sha256)
            self._confirmed(pack, footer)
            with self._lock:
                self.packs.append(pack)
                self._unstored.pop(id(pack))
                self.stored_bytes += pack.size
                self._buffers.give(full.buffer)
        finally:
            self._slots.release()

    def _raise_failed(self) -> None:
        with self._lock:
            done = [upload for upload in self._running if upload.done()]
            self._running = [upload for upload in self._running if not upload.done()]
        for upload in done:
            upload.result()
