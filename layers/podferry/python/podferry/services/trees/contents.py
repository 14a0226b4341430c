"""Reads the bytes of a file in a snapshot: only the blocks that a range of it needs."""

import struct
from collections.abc import Callable
from dataclasses import dataclass

import zstandard
from blake3 import blake3

from podferry.domain.errors import InvalidRequestError, SnapshotCorruptError
from podferry.domain.snapshot import Snapshot, object_key
from podferry.domain.tree import UNREADABLE, Block, Chunk, Entry, shown
from podferry.ports.objects import SnapshotObjects
from podferry.services.trees.page import unzipped

_RAW, _ZSTD, _PLANES2, _PLANES4 = 0, 1, 2, 3
_PLANES_HEADER = struct.Struct("<IB")  # length of the packed plane, bytes before the first number


@dataclass(frozen=True, slots=True)
class Contents:
    """Of one snapshot; every chunk is compared with its id."""

    snapshot: Snapshot
    chunk_key: bytes
    objects: SnapshotObjects

    def read(self, entry: Entry, offset: int, length: int) -> bytes:
        """The bytes from `offset` on; fewer than `length` only at the end of the file.

        Raises:
            InvalidRequestError: it is not a regular file, or its content was never captured.
            SnapshotMissingError, SnapshotCorruptError: a pack is not what was recorded.
        """
        if entry.kind != "file":
            raise InvalidRequestError(f"{shown(entry.path)} is a {entry.kind}, not a file")
        if entry.bits & UNREADABLE:
            raise InvalidRequestError(
                f"{shown(entry.path)} could not be read when the snapshot was made"
            )
        end = min(entry.size, offset + length)
        found = bytearray(max(0, end - offset))
        last: tuple[Block, bytes] | None = None
        for at, chunk in entry.content:
            if at >= end or at + chunk.length <= offset:
                continue
            if last is None or last[0] != chunk.block:
                last = (chunk.block, self._block(chunk.block))
            data = self._chunk(chunk, last[1])
            start, stop = max(at, offset), min(at + chunk.length, end)
            found[start - offset : stop - offset] = data[start - at : stop - at]
        return bytes(found)

    def _chunk(self, chunk: Chunk, block: bytes) -> bytes:
        data = block[chunk.offset : chunk.offset + chunk.length]
        if blake3(data, key=self.chunk_key).digest() != chunk.id:
            raise self._damaged(chunk.block, "a chunk has other bytes")
        return data

    def _block(self, block: Block) -> bytes:
        key = object_key(self.snapshot.account_id, block.snapshot_id, f"packs/{block.pack_sha256}")
        stored = self.objects.read_range(self.snapshot.kind, key, block.offset, block.stored)
        if int.from_bytes(blake3(stored).digest(4), "little") != block.checksum:
            raise self._damaged(block, "it has other bytes")
        try:
            return decoded(block.codec, stored, block.raw)
        except (ValueError, struct.error, zstandard.ZstdError) as error:
            raise self._damaged(block, str(error)) from error

    def _damaged(self, block: Block, why: str) -> SnapshotCorruptError:
        return SnapshotCorruptError(
            f"snapshot {self.snapshot.id}: packs/{block.pack_sha256} of {block.snapshot_id}, block "
            f"at {block.offset}: {why}"
        )


def decoded(codec: int, stored: bytes, size: int) -> bytes:
    """The raw bytes of a block.

    Raises:
        ValueError, struct.error, zstandard.ZstdError: these cannot have been stored.
    """
    decoders: dict[int, Callable[[], bytes]] = {
        _RAW: lambda: stored,
        _ZSTD: lambda: unzipped(stored, size),
        _PLANES2: lambda: _joined(stored, size, 2),
        _PLANES4: lambda: _joined(stored, size, 4),
    }
    if codec not in decoders:
        raise ValueError(f"codec {codec} is not known to this version")
    raw = decoders[codec]()
    if len(raw) != size:
        raise ValueError(f"{len(raw)} bytes, {size} are recorded")
    return raw


def _joined(stored: bytes, size: int, width: int) -> bytes:
    """Numbers of `width` bytes from their planes; the first one is packed, the others are not."""
    length, phase = _PLANES_HEADER.unpack_from(stored)
    if phase >= width:
        raise ValueError(f"numbers of {width} bytes cannot begin at {phase}")
    count = (size - phase) // width
    end = phase + count * width
    position = _PLANES_HEADER.size
    raw = bytearray(size)
    raw[:phase] = stored[position : position + phase]
    position += phase
    raw[phase + width - 1 : end : width] = unzipped(stored[position : position + length], count)
    position += length
    for plane in range(width - 1):
        raw[phase + plane : end : width] = stored[position : position + count]
        position += count
    raw[end:] = stored[position:]
    return bytes(raw)
