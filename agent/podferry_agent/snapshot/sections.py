"""The container of pages and pack footers: named sections of little-endian columns."""

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence

import zstandard

_HEADER = struct.Struct("<4sQ")


def unzip(reader: zstandard.ZstdDecompressor, packed: bytes | memoryview, size: int) -> bytes:
    """One Zstandard frame. A frame that promises another size would get all memory it asks for.

    Raises:
        ValueError, zstandard.ZstdError: it is no such frame.
    """
    if zstandard.frame_content_size(packed) not in {-1, size}:
        raise ValueError("a frame has another size than is recorded")
    return reader.decompress(packed, max_output_size=size)


def write_sections(sections: Iterable[tuple[bytes, bytes]]) -> bytes:
    parts = []
    for tag, body in sections:
        parts += [_HEADER.pack(tag, len(body)), body]
    return b"".join(parts)


def read_sections(data: bytes) -> dict[bytes, bytes]:
    """All sections by tag; raises `ValueError` when the lengths do not add up."""
    found = {}
    position = 0
    while position < len(data):
        if position + _HEADER.size > len(data):
            raise ValueError("a section header is cut off")
        tag, length = _HEADER.unpack_from(data, position)
        position += _HEADER.size
        if position + length > len(data):
            raise ValueError(f"section {tag!r} is cut off")
        found[tag] = data[position : position + length]
        position += length
    return found


def pack_column(code: str, values: Sequence[int] | Iterable[int]) -> bytes:
    """Numbers as fixed-width little-endian: I unsigned 32, q signed 64, Q unsigned 64, B byte."""
    column = array(code, values)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def unpack_column(code: str, data: bytes) -> "array[int]":
    column = array(code)
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def pack_strings(values: Sequence[bytes]) -> bytes:
    """Lengths as unsigned 32-bit after their count, then the bytes one after the other."""
    lengths = pack_column("I", [len(values), *map(len, values)])
    return lengths + b"".join(values)


def unpack_strings(data: bytes) -> list[bytes]:
    (count,) = struct.unpack_from("<I", data)
    lengths = unpack_column("I", data[4 : 4 + 4 * count])
    position = 4 + 4 * count
    values = []
    for length in lengths:
        values.append(data[position : position + length])
        position += length
    if len(lengths) != count or position != len(data):
        raise ValueError("a list of strings does not fill its section")
    return values
