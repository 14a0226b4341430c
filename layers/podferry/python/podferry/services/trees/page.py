"""Decodes pages of a manifest (docs/snapshot-format.md). Agents write them, on their own code."""

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import zstandard

from podferry.domain.errors import SnapshotCorruptError
from podferry.domain.tree import Block, Chunk, Entry, sort_key

T = TypeVar("T")

_HEADER = struct.Struct("<8sII")  # magic, version, raw length
_MAGIC = b"PFPAGE\r\n"
_VERSIONS = (1, 2)
_SECTION = struct.Struct("<4sQ")
_LARGEST = 256 * 1024 * 1024
_SCALARS = (
    (b"MODE", "I", "mode"),
    (b"UIDS", "I", "uid"),
    (b"GIDS", "I", "gid"),
    (b"SIZE", "q", "size"),
    (b"MTIM", "q", "mtime_ns"),
    (b"FLAG", "I", "flags"),
    (b"BITS", "I", "bits"),
)

Sections = dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Page:
    """A sorted piece of a manifest."""

    keys: tuple[bytes, ...]
    entries: tuple[Entry, ...]


def decode_page(name: str, body: bytes) -> Page:
    """Read a page; the caller has compared its hash.

    Raises:
        SnapshotCorruptError: it is not a page of a format that we know; names it.
    """
    try:
        sections = _sections(body)
        entries = [Entry(path) for path in _paths(sections)]
        _fill_scalars(entries, sections)
        _fill_some(entries, sections)
        _fill_content(entries, sections)
    except (ValueError, KeyError, IndexError, struct.error, zstandard.ZstdError) as error:
        raise SnapshotCorruptError(f"{name}: the page cannot be read: {error!r}") from error
    return Page(tuple(sort_key(entry.path) for entry in entries), tuple(entries))


def _sections(body: bytes) -> Sections:
    magic, version, raw_length = _HEADER.unpack_from(body)
    if magic != _MAGIC or version not in _VERSIONS:
        raise ValueError(f"{magic!r} {version} is no page that this version knows")
    if raw_length > _LARGEST:
        raise ValueError(f"{raw_length} bytes are more than a page can have")
    raw = unzipped(body[_HEADER.size :], raw_length)
    found: Sections = {}
    position = 0
    while position < len(raw):
        tag, length = _SECTION.unpack_from(raw, position)
        position += _SECTION.size
        found[tag] = raw[position : position + length]
        position += length
    if position != len(raw):
        raise ValueError("a section is cut off")
    return found


def unzipped(packed: bytes, raw_length: int) -> bytes:
    """One Zstandard frame. A frame that promises another size would get all memory it asks for.

    Raises:
        ValueError, zstandard.ZstdError: it is no such frame.
    """
    if zstandard.frame_content_size(packed) not in {-1, raw_length}:
        raise ValueError("a frame has another size than is recorded")
    return zstandard.ZstdDecompressor().decompress(packed, max_output_size=raw_length)


def _column(code: str, data: bytes) -> "array[int]":
    column = array(code)
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _strings(data: bytes) -> list[bytes]:
    (count,) = struct.unpack_from("<I", data)
    position = 4 + 4 * count
    values = []
    for length in _column("I", data[4:position]):
        values.append(data[position : position + length])
        position += length
    if position != len(data):
        raise ValueError("a list of strings does not fill its section")
    return values


def _pieces(data: bytes, width: int) -> list[bytes]:
    return [data[at : at + width] for at in range(0, len(data), width)]


def _paths(sections: Sections) -> Iterator[bytes]:
    path = b""
    shared = _column("I", sections[b"PLEN"])
    for length, suffix in zip(shared, _strings(sections[b"PSUF"]), strict=True):
        path = path[:length] + suffix
        yield path


def _fill_scalars(entries: Sequence[Entry], sections: Sections) -> None:
    for tag, code, name in _SCALARS:
        for entry, value in zip(entries, _column(code, sections[tag]), strict=True):
            setattr(entry, name, value)


def _fill_some(entries: Sequence[Entry], sections: Sections) -> None:
    """What only some entries have."""
    for at, device in _rows(sections, b"RDVI", _column("Q", sections[b"RDVV"])):
        entries[at].rdev = device
    for at, target in _rows(sections, b"TGTI", _strings(sections[b"TGTS"])):
        entries[at].target = target
    for at in _column("I", sections[b"LNKI"]):
        entries[at].is_linked = True
    pairs = zip(_strings(sections[b"XATN"]), _strings(sections[b"XATV"]), strict=True)
    for at, xattr in _rows(sections, b"XATI", list(pairs)):
        entries[at].xattrs = (*entries[at].xattrs, xattr)


def _rows(sections: Sections, tag: bytes, values: Sequence[T]) -> Iterator[tuple[int, T]]:
    return zip(_column("I", sections[tag]), values, strict=True)


def _fill_content(entries: Sequence[Entry], sections: Sections) -> None:
    chunks = _chunks(sections)
    offsets = _column("q", sections[b"REFO"])
    numbers = _column("I", sections[b"REFC"])
    first = 0
    for entry, count in zip(entries, _column("I", sections[b"REFN"]), strict=True):
        if count:
            places = range(first, first + count)
            entry.content = tuple((offsets[at], chunks[numbers[at]]) for at in places)
            first += count
    if b"XLGI" in sections:
        named = zip(_strings(sections[b"XLGN"]), _column("I", sections[b"XLGC"]), strict=True)
        for at, (name, number) in _rows(sections, b"XLGI", list(named)):
            entries[at].xattrs = (*entries[at].xattrs, (name, chunks[number].id))


def _chunks(sections: Sections) -> list[Chunk]:
    blocks = _blocks(sections)
    rows = zip(
        _pieces(sections[b"CIDS"], 32),
        _column("I", sections[b"CLEN"]),
        _column("I", sections[b"CBLK"]),
        _column("I", sections[b"COFF"]),
        strict=True,
    )
    return [Chunk(id_, blocks[block], offset, length) for id_, length, block, offset in rows]


def _blocks(sections: Sections) -> list[Block]:
    owners = [owner.decode() for owner in _strings(sections[b"PSID"])]
    hashes = [digest.hex() for digest in _pieces(sections[b"PSHA"], 32)]
    packs = list(zip(owners, hashes, strict=True))
    rows = zip(
        _column("I", sections[b"BPAK"]),
        _column("Q", sections[b"BOFF"]),
        _column("I", sections[b"BSTO"]),
        _column("I", sections[b"BRAW"]),
        _column("B", sections[b"BCOD"]),
        _column("I", sections[b"BSUM"]),
        strict=True,
    )
    return [Block(*packs[pack], *rest) for pack, *rest in rows]
