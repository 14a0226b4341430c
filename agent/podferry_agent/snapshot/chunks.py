"""Chunks: which there are, and where they are stored."""

import threading
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from blake3 import blake3

RAW, ZSTD, PLANES2, PLANES4 = 0, 1, 2, 3  # codecs of blocks


@dataclass(slots=True)
class Pack:
    """An object of blocks. `sha256` is empty while the pack is still being filled."""

    snapshot_id: str
    sha256: str = ""
    size: int = 0

    @property
    def name(self) -> str:
        return f"packs/{self.sha256}"


@dataclass(slots=True)
class Block:
    """A compressed run of chunks in a pack."""

    pack: Pack
    offset: int
    stored: int
    raw: int
    codec: int
    checksum: int


def chunk_id(data: bytes | bytearray | memoryview, key: bytes) -> bytes:
    """The identity of a chunk: keyed, so that it tells nothing to another account."""
    return bytes(blake3(data, key=key).digest())


@dataclass
class ChunkTable:
    """All known chunks, by number. Compact: a million chunks are about 150 MB."""

    ids: list[bytes] = field(default_factory=list)
    numbers: dict[bytes, int] = field(default_factory=dict)
    lengths: "array[int]" = field(default_factory=lambda: array("I"))
    offsets: "array[int]" = field(default_factory=lambda: array("I"))  # in the block's raw bytes
    block_numbers: "array[int]" = field(default_factory=lambda: array("I"))
    blocks: list[Block | None] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self, identity: bytes, length: int) -> tuple[int, bool]:
        """(number, whether the caller is the first and has to store it)."""
        with self.lock:
            known = self.numbers.get(identity)
            if known is not None:
                return known, False
            return self._append(identity, length, 0, _UNPLACED), True

    def place(self, block: Block, members: list[tuple[int, int]]) -> None:
        """Say where reserved chunks are: (chunk number, offset in the block)."""
        with self.lock:
            number = len(self.blocks)
            self.blocks.append(block)
            for chunk, offset in members:
                self.block_numbers[chunk] = number
                self.offsets[chunk] = offset

    def add_block(self, block: Block) -> int:
        with self.lock:
            self.blocks.append(block)
            return len(self.blocks) - 1

    def add(self, identity: bytes, length: int, block_number: int, offset: int) -> int:
        """Learn a stored chunk from a page or a pack; the first place that is told wins."""
        return self.add_all([(identity, length, block_number, offset)])[0]

    def add_all(self, chunks: Iterable[tuple[bytes, int, int, int]]) -> list[int]:
        """The numbers of stored chunks: (identity, length, number of its block, offset in it)."""
        numbers = []
        with self.lock:
            for identity, length, block_number, offset in chunks:
                number = self.numbers.get(identity)
                if number is None:
                    number = self._append(identity, length, offset, block_number)
                numbers.append(number)
        return numbers

    def block_of(self, chunk: int) -> Block:
        number = self.block_numbers[chunk]
        block = self.blocks[number] if number != _UNPLACED else None
        if block is None:
            raise AssertionError(f"chunk {self.ids[chunk].hex()} was never stored")
        return block

    def pack_of(self, chunk: int) -> Pack | None:
        """Where the chunk is; None if it was reserved and is not stored."""
        number = self.block_numbers[chunk]
        block = self.blocks[number] if number != _UNPLACED else None
        return None if block is None else block.pack

    def _append(self, identity: bytes, length: int, offset: int, block_number: int) -> int:
        number = len(self.ids)
        self.ids.append(identity)
        self.numbers[identity] = number
        self.lengths.append(length)
        self.offsets.append(offset)
        self.block_numbers.append(block_number)
        return number


_UNPLACED = 0xFFFFFFFF
