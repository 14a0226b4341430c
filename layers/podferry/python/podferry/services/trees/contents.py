"""Reads the bytes of a file in a snapshot: only the blocks that a range of it needs."""

from dataclasses import dataclass, field

from podferry.domain.errors import InvalidRequestError, SnapshotCorruptError
from podferry.domain.snapshot import Snapshot, object_key
from podferry.domain.tree import UNREADABLE, Block, Chunk, Entry, shown
from podferry.ports.objects import SnapshotObjects
from podferry_agent.snapshot.chunks import Block as EngineBlock
from podferry_agent.snapshot.chunks import Pack, chunk_id
from podferry_agent.snapshot.codec import Codec
from podferry_agent.snapshot.errors import SnapshotError


@dataclass(frozen=True, slots=True)
class Contents:
    """Of one snapshot; every chunk is compared with its id."""

    snapshot: Snapshot
    chunk_key: bytes
    objects: SnapshotObjects
    codec: Codec = field(default_factory=Codec)

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
        if chunk_id(data, self.chunk_key) != chunk.id:
            raise self._damaged(chunk.block, "a chunk has other bytes")
        return data

    def _block(self, block: Block) -> bytes:
        key = object_key(self.snapshot.account_id, block.snapshot_id, f"packs/{block.pack_sha256}")
        stored = self.objects.read_range(self.snapshot.kind, key, block.offset, block.stored)
        pack = Pack(block.snapshot_id, block.pack_sha256, 0)
        as_stored = EngineBlock(
            pack, block.offset, block.stored, block.raw, block.codec, block.checksum
        )
        try:
            return bytes(self.codec.decode(as_stored, stored))
        except SnapshotError as error:
            raise self._damaged(block, str(error)) from error

    def _damaged(self, block: Block, why: str) -> SnapshotCorruptError:
        return SnapshotCorruptError(
            f"snapshot {self.snapshot.id}: packs/{block.pack_sha256} of {block.snapshot_id}, block "
            f"at {block.offset}: {why}"
        )
