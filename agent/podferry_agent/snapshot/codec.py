"""Compresses blocks: by Zstandard, by the planes of floating-point numbers, or not at all.

The codec of a block is chosen from three samples, so that what does not shrink costs no time.
"""

import struct
import threading
from collections.abc import Callable

import zstandard
from blake3 import blake3

from podferry_agent.snapshot.chunks import PLANES2, PLANES4, RAW, ZSTD, Block
from podferry_agent.snapshot.errors import SnapshotCorruptError, UnsupportedFormatError
from podferry_agent.snapshot.sections import unzip

_SAMPLE = 16 << 10
_PIECE = 256 << 10
_SAMPLED_FROM = 64 << 10  # smaller blocks are simply tried
_NOT_WORTH_IT = 0.99
_PLANES_BELOW = 0.95  # planes must promise this, and be better than plain zstd by the margin
_PLANES_MARGIN = 0.02
_PLANES_TRIED_ABOVE = 0.6
_PLANES_HEADER = struct.Struct("<IB")  # length of the packed plane, bytes before the first number
Bytes = bytes | memoryview
_WIDTHS = {PLANES2: 2, PLANES4: 4}


def checksum(stored: Bytes) -> int:
    """Tells which block is damaged; as fast as zlib's CRC-32, and every reader has BLAKE3."""
    return int.from_bytes(blake3(stored).digest(4), "little")


class Codec(threading.local):
    """Compresses and decompresses blocks; one set of contexts per thread."""

    def __init__(self) -> None:
        self._normal = zstandard.ZstdCompressor(level=1, write_checksum=False)
        self._quick = zstandard.ZstdCompressor(level=-5, write_checksum=False)
        self._reader = zstandard.ZstdDecompressor()
        # Exponents repeat by chance only: a match finder this small leaves Huffman coding.
        self._exponents = zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters(
                window_log=17,
                hash_log=6,
                chain_log=6,
                search_log=1,
                min_match=7,
                strategy=zstandard.STRATEGY_FAST,
                write_content_size=True,
            )
        )

    def encode(self, data: bytes | memoryview) -> tuple[int, bytes | memoryview]:
        """The codec and what to store, which is `data` itself if that does not shrink."""
        codec, phase = self._choose(memoryview(data))
        if codec in _WIDTHS:
            packed = self._pack_planes(bytes(data), _WIDTHS[codec], phase)
        else:
            packed = self._normal.compress(data)
        if len(packed) > _NOT_WORTH_IT * len(data):
            return RAW, data
        return codec, packed

    def decode(self, block: Block, stored: Bytes) -> Bytes | bytearray:
        """The raw bytes of a block; `SnapshotCorruptError` if they cannot be what was stored."""
        name = block.pack.name
        decoders: dict[int, Callable[[Bytes, int], Bytes | bytearray]] = {
            RAW: _as_it_is,
            ZSTD: self._unzip,
            PLANES2: self._unpack_planes2,
            PLANES4: self._unpack_planes4,
        }
        if block.codec not in decoders:
            raise UnsupportedFormatError(
                f"{name}: block codec {block.codec} is unknown to this agent; use a newer one"
            )
        if len(stored) != block.stored or checksum(stored) != block.checksum:
            raise SnapshotCorruptError(f"the block at {block.offset} has other bytes", name)
        try:
            raw = decoders[block.codec](stored, block.raw)
        except (zstandard.ZstdError, ValueError, struct.error) as error:
            raise SnapshotCorruptError(f"block at {block.offset}: {error}", name) from error
        if len(raw) != block.raw:
            raise SnapshotCorruptError(f"the block at {block.offset} has another length", name)
        return raw

    def _choose(self, data: memoryview) -> tuple[int, int]:
        """The codec, and for planes the bytes before the first whole number."""
        size = len(data)
        if size < _SAMPLED_FROM:
            return ZSTD, 0
        samples = self._samples(data, (2,))
        sizes = [len(self._quick.compress(samples[0]))]
        if sizes[0] < _PLANES_TRIED_ABOVE * _SAMPLE:
            return ZSTD, 0  # neither numbers nor noise look like this
        samples += self._samples(data, (1, 3))
        sizes += [len(self._quick.compress(sample)) for sample in samples[1:]]
        plain = sum(sizes) / (3 * _SAMPLE)
        planes = self._best_planes(samples, plain) if plain > _PLANES_TRIED_ABOVE else None
        if planes and planes[0] < self._repeated(data) - _PLANES_MARGIN:
            return planes[1:]
        # Not left out as noise: Zstandard is quick to pass over that, and samples can deceive.
        return ZSTD, 0

    def _repeated(self, data: memoryview) -> float:
        """What level 1 makes of a longer piece, in which things come again far apart."""
        start = max(0, len(data) // 2 - _PIECE // 2)
        piece = data[start : start + _PIECE]
        return len(self._normal.compress(piece)) / len(piece)

    def _samples(self, data: memoryview, quarters: tuple[int, ...]) -> list[bytes]:
        starts = [(len(data) * quarter // 4) & ~7 for quarter in quarters]
        return [bytes(data[start : start + _SAMPLE]) for start in starts]

    def _best_planes(self, samples: list[bytes], plain: float) -> tuple[float, int, int] | None:
        """Promise, codec and phase of numbers, if any; `plain` is what Zstandard makes."""
        limit = min(_PLANES_BELOW, plain - _PLANES_MARGIN)
        ratio, codec, phase = min(
            (self._promise(samples[:1], width, phase), codec, phase)
            for codec, width in _WIDTHS.items()
            for phase in range(width)
        )
        if ratio > limit + _PLANES_MARGIN:  # so of most blocks: the other samples are not asked
            return None
        ratio = self._promise(samples, _WIDTHS[codec], phase)
        if ratio > limit:
            return None
        # Only level 1 itself tells what it makes of data that has repetitions besides.
        normal = sum(len(self._normal.compress(sample)) for sample in samples) / (3 * _SAMPLE)
        return (ratio, codec, phase) if ratio < normal - _PLANES_MARGIN else None

    def _promise(self, samples: list[bytes], width: int, phase: int) -> float:
        """How small the samples would get as numbers of a width that begin at a phase."""
        plane = b"".join([sample[phase + width - 1 :: width] for sample in samples])
        return (width - 1 + len(self._exponents.compress(plane)) / len(plane)) / width

    def _pack_planes(self, data: bytes, width: int, phase: int) -> bytes:
        end = len(data) - (len(data) - phase) % width
        top = self._exponents.compress(data[phase + width - 1 : end : width])
        low = [data[phase + plane : end : width] for plane in range(width - 1)]
        header = _PLANES_HEADER.pack(len(top), phase)
        return b"".join([header, data[:phase], top, *low, data[end:]])

    def _unpack_planes(self, stored: Bytes, size: int, width: int) -> bytearray:
        length, phase = _PLANES_HEADER.unpack_from(stored)
        if phase >= width:
            raise ValueError(f"numbers of {width} bytes cannot begin at {phase}")
        end = size - (size - phase) % width
        count = (end - phase) // width
        raw = bytearray(size)
        position = _PLANES_HEADER.size
        raw[:phase] = stored[position : position + phase]
        position += phase
        top = self._unzip(stored[position : position + length], count)
        raw[phase + width - 1 : end : width] = top
        position += length
        for plane in range(width - 1):
            raw[phase + plane : end : width] = stored[position : position + count]
            position += count
        raw[end:] = stored[position:]
        return raw

    def _unpack_planes2(self, stored: Bytes, size: int) -> bytearray:
        return self._unpack_planes(stored, size, 2)

    def _unpack_planes4(self, stored: Bytes, size: int) -> bytearray:
        return self._unpack_planes(stored, size, 4)

    def _unzip(self, stored: Bytes, size: int) -> bytes:
        return unzip(self._reader, stored, size)


def _as_it_is(stored: Bytes, _: int) -> Bytes:
    return stored
