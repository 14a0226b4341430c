"""Proves packs before they are uploaded: on a machine whose memory is not to be trusted."""

from collections.abc import Callable

from podferry_agent.snapshot.chunks import chunk_id
from podferry_agent.snapshot.codec import Codec
from podferry_agent.snapshot.errors import CaptureFailedError, SnapshotCorruptError
from podferry_agent.snapshot.packs import OpenPack

Prove = Callable[[OpenPack, memoryview], None]


def prover(key: bytes) -> Prove:
    """Decompresses each block as a restore will, and compares each chunk with its identity.

    A bit that flips after that is found by the store, which knows the SHA-256 of the body.
    """
    codec = Codec()

    def prove(pack: OpenPack, body: memoryview) -> None:
        """Raises: `CaptureFailedError` if the body does not give back what was read."""
        raw = []
        for block in pack.blocks:
            try:
                stored = body[block.offset : block.offset + block.stored]
                raw.append(memoryview(codec.decode(block, stored)))
            except SnapshotCorruptError as error:
                raise _changed() from error
        for identity, length, block_number, offset in pack.chunks:
            if chunk_id(raw[block_number][offset : offset + length], key) != identity:
                raise _changed()

    return prove


def _changed() -> CaptureFailedError:
    return CaptureFailedError(
        "what was read and what would be stored differ: memory of this machine changes by itself; "
        "nothing was published, save again and test the memory or use another machine"
    )
