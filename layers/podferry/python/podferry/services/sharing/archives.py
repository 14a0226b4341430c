"""Looks into archives, one level deep: a secret in a zip leaves with it like any other."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Protocol

import zstandard

from podferry.domain.share import MOST_HITS, Hit
from podferry.services.sharing.scan import scan_bytes

LARGEST = 64 << 20
"""Of an archive that is looked into: it is held in memory."""
MOST_UNPACKED = 256 << 20
_PIECE = 1 << 20
_ZIP, _GZIP, _BZIP2, _XZ, _ZSTD = (
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",
)
_CLOSED = (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")


class _Stream(Protocol):
    """What is unpacked piece by piece."""

    def read(self, size: int, /) -> bytes: ...


_STREAMS: dict[bytes, Callable[[IO[bytes]], _Stream]] = {
    _GZIP: lambda raw: gzip.GzipFile(fileobj=raw),
    _BZIP2: bz2.BZ2File,
    _XZ: lzma.LZMAFile,
    _ZSTD: lambda raw: zstandard.ZstdDecompressor().stream_reader(raw),
}
_UNREADABLE = (
    OSError,
    EOFError,
    RuntimeError,  # zipfile's word for an encrypted member
    NotImplementedError,  # the same for a compression that it does not know
    ValueError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
)


class _TooLargeError(Exception):
    """More comes out of an archive than is looked through."""


def is_archive(head: bytes) -> bool:
    """By its first bytes; names may say anything."""
    return head.startswith((_ZIP, *_STREAMS, *_CLOSED)) or head[257:262] == b"ustar"


def not_scanned() -> Hit:
    """The owner has to say whether it may leave unseen."""
    return Hit(line=0, rule="archive-not-scanned", kind="not_scanned")


def scan_archive(path: str, data: bytes) -> list[Hit]:
    """Hits in its members; one that is not looked into is a hit itself."""
    hits: list[Hit] = []
    budget = _Budget()
    try:
        for name, pieces in _members(data, budget):
            if len(hits) < MOST_HITS:
                hits += scan_bytes(path, pieces, member=name)
    except (_TooLargeError, *_UNREADABLE):
        hits.append(not_scanned())
    return hits[:MOST_HITS]


class _Budget:
    """Bounds what is unpacked: a zip of a few KiB may hold terabytes of zeros."""

    def __init__(self) -> None:
        self._left = MOST_UNPACKED

    def pieces(self, stream: _Stream) -> Iterator[bytes]:
        while piece := stream.read(_PIECE):
            self._left -= len(piece)
            if self._left < 0:
                raise _TooLargeError
            yield piece


def _members(data: bytes, budget: _Budget) -> Iterator[tuple[str, Iterator[bytes]]]:
    if data.startswith(_ZIP):
        yield from _of_zip(data, budget)
        return
    for magic, opened in _STREAMS.items():
        if data.startswith(magic):
            body = b"".join(budget.pieces(opened(io.BytesIO(data))))
            yield from (
                _of_tar(body, budget) if body[257:262] == b"ustar" else [("content", iter([body]))]
            )
            return
    if data[257:262] != b"ustar":
        raise zipfile.BadZipFile("no archive that can be opened")
    yield from _of_tar(data, budget)


def _of_zip(data: bytes, budget: _Budget) -> Iterator[tuple[str, Iterator[bytes]]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            with archive.open(info) as member:
                yield info.filename, budget.pieces(member)


def _of_tar(data: bytes, budget: _Budget) -> Iterator[tuple[str, Iterator[bytes]]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for info in archive:
            member = archive.extractfile(info) if info.isfile() else None
            if member is not None:
                yield info.name, budget.pieces(member)
