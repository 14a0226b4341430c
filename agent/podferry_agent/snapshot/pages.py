"""Pages: pieces of a manifest, in columns. The same entries always make the same bytes."""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

import zstandard

from podferry_agent.snapshot.chunks import Block, ChunkTable, Pack
from podferry_agent.snapshot.errors import SnapshotCorruptError, UnsupportedFormatError
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.sections import (
    pack_column,
    pack_strings,
    read_sections,
    unpack_column,
    unpack_strings,
    unzip,
    write_sections,
)

_T = TypeVar("_T")
_HEADER = struct.Struct("<8sII")  # magic, version, raw length
_MAGIC = b"PFPAGE\r\n"
_VERSION, _WITH_LARGE_XATTRS = 1, 2  # of pages: the second one only where it is needed
_MIN_ENTRIES, _MAX_ENTRIES, _MAX_WEIGHT = 256, 8192, 4 << 20
_CUT_MASK = 0x7FF  # a page ends after one name in 2048
_SCALARS = (
    (b"MODE", "I", "mode"),
    (b"UIDS", "I", "uid"),
    (b"GIDS", "I", "gid"),
    (b"SIZE", "q", "size"),
    (b"MTIM", "q", "mtime_ns"),
    (b"FLAG", "I", "flags"),
    (b"BITS", "I", "bits"),
)


class PageCutter:
    """Cuts sorted entries where a name's checksum says so.

    The cut depends on names alone, so that a change in one place leaves the other pages as they
    are, and a capture that touched three files uploads a few pages.
    """

    def __init__(self) -> None:
        self._page: list[Entry] = []
        self._weight = 0

    @property
    def is_at_cut(self) -> bool:
        return not self._page

    def cut(self, entries: Iterable[Entry]) -> Iterator[list[Entry]]:
        for entry in entries:
            self._page.append(entry)
            path, length = entry.path, len(self._page)
            self._weight += 64 + len(path) + 8 * len(entry.refs)
            if entry.xattrs:
                self._weight += sum(len(value) for _, value in entry.xattrs)
            self._weight += 64 * len(entry.large_xattrs)
            is_cut = length >= _MIN_ENTRIES and not zlib.crc32(path) & _CUT_MASK
            if is_cut or length >= _MAX_ENTRIES or self._weight >= _MAX_WEIGHT:
                yield from self.rest()

    def rest(self) -> Iterator[list[Entry]]:
        """What has not been cut off yet, if anything."""
        if self._page:
            page, self._page, self._weight = self._page, [], 0
            yield page


def encode_page(entries: Sequence[Entry], table: ChunkTable) -> bytes:
    """The object of a page: everything needed to restore its entries, places of chunks included."""
    raw = write_sections(
        [*_path_sections(entries), *_entry_sections(entries), *_chunk_sections(entries, table)]
    )
    packed = zstandard.ZstdCompressor(level=3).compress(raw)
    version = _WITH_LARGE_XATTRS if any(e.large_xattrs for e in entries) else _VERSION
    return _HEADER.pack(_MAGIC, version, len(raw)) + packed


def _path_sections(entries: Sequence[Entry]) -> list[tuple[bytes, bytes]]:
    shared, suffixes = [], []
    previous = b""
    for entry in entries:
        common = _common_prefix(previous, entry.path)
        shared.append(common)
        suffixes.append(entry.path[common:])
        previous = entry.path
    return [(b"PLEN", pack_column("I", shared)), (b"PSUF", pack_strings(suffixes))]


def _common_prefix(left: bytes, right: bytes) -> int:
    """Length of the directory part that both paths share."""
    if left[: right.rfind(b"/") + 1] == right[: right.rfind(b"/") + 1]:
        return right.rfind(b"/") + 1
    limit = min(len(left), len(right))
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _entry_sections(entries: Sequence[Entry]) -> list[tuple[bytes, bytes]]:
    scalars = [
        (tag, pack_column(code, [getattr(e, field) for e in entries]))
        for tag, code, field in _SCALARS
    ]
    devices = [(i, e.rdev) for i, e in enumerate(entries) if e.rdev]
    targets = [(i, e.target) for i, e in enumerate(entries) if e.target]
    links = [(i, e.link) for i, e in enumerate(entries) if e.link]
    xattrs = [(i, name, value) for i, e in enumerate(entries) for name, value in e.xattrs]
    return [
        *scalars,
        (b"RDVI", pack_column("I", [i for i, _ in devices])),
        (b"RDVV", pack_column("Q", [v for _, v in devices])),
        (b"TGTI", pack_column("I", [i for i, _ in targets])),
        (b"TGTS", pack_strings([v for _, v in targets])),
        (b"LNKI", pack_column("I", [i for i, _ in links])),
        (b"LNKS", b"".join(v for _, v in links)),
        *_kept_sections(entries),
        (b"XATI", pack_column("I", [x[0] for x in xattrs])),
        (b"XATN", pack_strings([x[1] for x in xattrs])),
        (b"XATV", pack_strings([x[2] for x in xattrs])),
        (b"REFN", pack_column("I", [len(e.refs) // 2 for e in entries])),
        (b"REFO", pack_column("q", [o for e in entries for o in e.refs[::2]])),
    ]


def _kept_sections(entries: Sequence[Entry]) -> list[tuple[bytes, bytes]]:
    """Only in a page with such entries: other pages stay as they were without this section."""
    kept = [(i, e.kept.encode()) for i, e in enumerate(entries) if e.kept]
    if not kept:
        return []
    return [
        (b"KPTI", pack_column("I", [i for i, _ in kept])),
        (b"KPTS", pack_strings([v for _, v in kept])),
    ]


def _numbered(values: Iterable[int]) -> dict[int, int]:
    """Each distinct value with its place in the order of first use."""
    return {value: number for number, value in enumerate(dict.fromkeys(values))}


def _chunk_sections(entries: Sequence[Entry], table: ChunkTable) -> list[tuple[bytes, bytes]]:
    refs = [c for e in entries for c in e.refs[1::2]]
    chunks = _numbered(c for e in entries for c in e.chunks)
    chunk_blocks = [table.block_of(c) for c in chunks]
    by_identity = {id(b): b for b in chunk_blocks}
    # A block is the same block when it is at the same place, whoever described it.
    places = {key: (b.pack.snapshot_id, b.pack.sha256, b.offset) for key, b in by_identity.items()}
    block_numbers: dict[tuple[str, str, int], int] = {}
    blocks: list[Block] = []
    for block in chunk_blocks:
        if block_numbers.setdefault(places[id(block)], len(blocks)) == len(blocks):
            blocks.append(block)
    return [
        (b"REFC", pack_column("I", [chunks[c] for c in refs])),
        *_large_xattr_sections(entries, chunks),
        (b"CIDS", b"".join(table.ids[c] for c in chunks)),
        (b"CLEN", pack_column("I", [table.lengths[c] for c in chunks])),
        (b"CBLK", pack_column("I", [block_numbers[places[id(b)]] for b in chunk_blocks])),
        (b"COFF", pack_column("I", [table.offsets[c] for c in chunks])),
        *_block_sections(blocks),
    ]


def _large_xattr_sections(
    entries: Sequence[Entry], chunks: dict[int, int]
) -> list[tuple[bytes, bytes]]:
    large = [(i, name, chunk) for i, e in enumerate(entries) for name, chunk in e.large_xattrs]
    if not large:
        return []
    return [
        (b"XLGI", pack_column("I", [x[0] for x in large])),
        (b"XLGN", pack_strings([x[1] for x in large])),
        (b"XLGC", pack_column("I", [chunks[x[2]] for x in large])),
    ]


def _block_sections(blocks: Sequence[Block]) -> list[tuple[bytes, bytes]]:
    packs: dict[tuple[str, str], Pack] = {}
    for block in blocks:
        packs.setdefault((block.pack.snapshot_id, block.pack.sha256), block.pack)
    numbers = {key: number for number, key in enumerate(packs)}
    keys = [(b.pack.snapshot_id, b.pack.sha256) for b in blocks]
    return [
        (b"BPAK", pack_column("I", [numbers[key] for key in keys])),
        (b"BOFF", pack_column("Q", [b.offset for b in blocks])),
        (b"BSTO", pack_column("I", [b.stored for b in blocks])),
        (b"BRAW", pack_column("I", [b.raw for b in blocks])),
        (b"BCOD", pack_column("B", [b.codec for b in blocks])),
        (b"BSUM", pack_column("I", [b.checksum for b in blocks])),
        (b"PSHA", b"".join(bytes.fromhex(p.sha256) for p in packs.values())),
        (b"PSID", pack_strings([p.snapshot_id.encode() for p in packs.values()])),
        (b"PSIZ", pack_column("Q", [p.size for p in packs.values()])),
    ]


class PageReader:
    """Reads pages into entries, and what they say about chunks into one table.

    `largest` is how many bytes a page may have unpacked, where memory is short.
    """

    def __init__(self, table: ChunkTable, *, largest: int = 2**32 - 1) -> None:
        self._largest = largest
        self.packs: dict[tuple[str, str], Pack] = {}
        self._table = table
        self._blocks: dict[tuple[str, str, int], int] = {}

    def read(self, name: str, data: bytes) -> list[Entry]:
        """The entries of one page; the caller has compared the object's SHA-256 already."""
        try:
            return self._read(name, data)
        except (ValueError, KeyError, IndexError, struct.error, zstandard.ZstdError) as error:
            raise SnapshotCorruptError(f"the page cannot be read: {error!r}", name) from error

    def learn(self, name: str, data: bytes) -> None:
        """Only what the page says about chunks."""
        try:
            self._learn_chunks(self._sections(name, data))
        except (ValueError, KeyError, IndexError, struct.error, zstandard.ZstdError) as error:
            raise SnapshotCorruptError(f"the page cannot be read: {error!r}", name) from error

    def _read(self, name: str, data: bytes) -> list[Entry]:
        sections = self._sections(name, data)
        entries = _read_entries(sections)
        chunks = self._learn_chunks(sections)
        self._attach_refs(entries, sections, chunks)
        _attach_large_xattrs(entries, sections, chunks)
        return entries

    def _sections(self, name: str, data: bytes) -> dict[bytes, bytes]:
        magic, version, raw_length = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise SnapshotCorruptError("the object is not a page", name)
        if version not in (_VERSION, _WITH_LARGE_XATTRS):
            raise UnsupportedFormatError(f"{name}: page version {version}; use a newer agent")
        if raw_length > self._largest:
            raise SnapshotCorruptError(f"{raw_length} bytes are more than a page can have", name)
        packed = data[_HEADER.size :]
        return read_sections(unzip(zstandard.ZstdDecompressor(), packed, raw_length))

    def _learn_chunks(self, sections: dict[bytes, bytes]) -> list[int]:
        blocks = self._learn_blocks(sections)
        ids = sections[b"CIDS"]
        rows = zip(
            [ids[at : at + 32] for at in range(0, len(ids), 32)],
            unpack_column("I", sections[b"CLEN"]),
            [blocks[block] for block in unpack_column("I", sections[b"CBLK"])],
            unpack_column("I", sections[b"COFF"]),
            strict=True,
        )
        return self._table.add_all(rows)

    def _learn_blocks(self, sections: dict[bytes, bytes]) -> list[int]:
        packs = self._learn_packs(sections)
        rows = zip(
            unpack_column("I", sections[b"BPAK"]),
            unpack_column("Q", sections[b"BOFF"]),
            unpack_column("I", sections[b"BSTO"]),
            unpack_column("I", sections[b"BRAW"]),
            unpack_column("B", sections[b"BCOD"]),
            unpack_column("I", sections[b"BSUM"]),
            strict=True,
        )
        numbers = []
        for pack_number, offset, *rest in rows:
            pack = packs[pack_number]
            key = (pack.snapshot_id, pack.sha256, offset)
            if key not in self._blocks:
                self._blocks[key] = self._table.add_block(Block(pack, offset, *rest))
            numbers.append(self._blocks[key])
        return numbers

    def _learn_packs(self, sections: dict[bytes, bytes]) -> list[Pack]:
        owners = unpack_strings(sections[b"PSID"])
        sizes = unpack_column("Q", sections[b"PSIZ"])
        hashes = sections[b"PSHA"]
        packs = []
        for i, (owner, size) in enumerate(zip(owners, sizes, strict=True)):
            pack = Pack(owner.decode(), hashes[32 * i : 32 * i + 32].hex(), size)
            packs.append(self.packs.setdefault((pack.snapshot_id, pack.sha256), pack))
        return packs

    def _attach_refs(
        self, entries: Sequence[Entry], sections: dict[bytes, bytes], chunks: Sequence[int]
    ) -> None:
        offsets = unpack_column("q", sections[b"REFO"])
        numbers = [chunks[c] for c in unpack_column("I", sections[b"REFC"])]
        counts = unpack_column("I", sections[b"REFN"])
        for entry, count, end in zip(entries, counts, accumulate(counts), strict=True):
            if count == 1:
                entry.refs = (offsets[end - 1], numbers[end - 1])
            elif count:
                pairs = zip(offsets[end - count : end], numbers[end - count : end], strict=True)
                entry.refs = tuple(x for pair in pairs for x in pair)


def _attach_large_xattrs(
    entries: Sequence[Entry], sections: dict[bytes, bytes], chunks: Sequence[int]
) -> None:
    if b"XLGI" not in sections:
        return
    numbers = [chunks[c] for c in unpack_column("I", sections[b"XLGC"])]
    named = list(zip(unpack_strings(sections[b"XLGN"]), numbers, strict=True))
    for i, large in _rows(sections, b"XLGI", named):
        entries[i].large_xattrs = (*entries[i].large_xattrs, large)


def _read_entries(sections: dict[bytes, bytes]) -> list[Entry]:
    entries = [Entry(path, 0) for path in _read_paths(sections)]
    for tag, code, field in _SCALARS:
        for entry, value in zip(entries, unpack_column(code, sections[tag]), strict=True):
            setattr(entry, field, value)
    for i, rdev in _rows(sections, b"RDVI", unpack_column("Q", sections[b"RDVV"])):
        entries[i].rdev = rdev
    for i, target in _rows(sections, b"TGTI", unpack_strings(sections[b"TGTS"])):
        entries[i].target = target
    links = sections[b"LNKS"]
    groups = [links[at : at + 16] for at in range(0, len(links), 16)]
    for i, link in _rows(sections, b"LNKI", groups):
        entries[i].link = link
    _read_kept(entries, sections)
    xattrs = zip(unpack_strings(sections[b"XATN"]), unpack_strings(sections[b"XATV"]), strict=True)
    for i, xattr in _rows(sections, b"XATI", list(xattrs)):
        entries[i].xattrs = (*entries[i].xattrs, xattr)
    return entries


def _read_kept(entries: Sequence[Entry], sections: dict[bytes, bytes]) -> None:
    if b"KPTI" in sections:
        for i, kept in _rows(sections, b"KPTI", unpack_strings(sections[b"KPTS"])):
            entries[i].kept = kept.decode()


def _rows(
    sections: dict[bytes, bytes], tag: bytes, values: Sequence[_T]
) -> Iterator[tuple[int, _T]]:
    return zip(unpack_column("I", sections[tag]), values, strict=True)


def _read_paths(sections: dict[bytes, bytes]) -> Iterator[bytes]:
    shared = unpack_column("I", sections[b"PLEN"])
    suffixes = unpack_strings(sections[b"PSUF"])
    path = b""
    for length, suffix in zip(shared, suffixes, strict=True):
        path = path[:length] + suffix
        if not _is_safe(path):
            raise ValueError(f"the path {path!r} would leave the tree")
        yield path


def _is_safe(path: bytes) -> bool:
    """Restore writes where a path says: it must stay below the root."""
    if not path:
        return True
    framed = b"/" + path + b"/"
    return not (b"//" in framed or b"/../" in framed or b"/./" in framed or b"\0" in path)
