"""Pages of a manifest as users look at them. The engine reads them, as it does on machines."""

from dataclasses import dataclass

from podferry.domain.errors import SnapshotCorruptError
from podferry.domain.tree import Block, Chunk, Entry, sort_key
from podferry_agent.snapshot.chunks import ChunkTable
from podferry_agent.snapshot.errors import SnapshotError
from podferry_agent.snapshot.model import Entry as EngineEntry
from podferry_agent.snapshot.pages import PageReader

_LARGEST = 256 * 1024 * 1024


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
    table = ChunkTable()
    try:
        found = PageReader(table, largest=_LARGEST).read(name, body)
    except SnapshotError as error:
        raise SnapshotCorruptError(str(error)) from error
    chunks = [_chunk(table, number) for number in range(len(table.ids))]
    entries = tuple(_entry(entry, chunks) for entry in found)
    return Page(tuple(sort_key(entry.path) for entry in entries), entries)


def _chunk(table: ChunkTable, number: int) -> Chunk:
    found = table.block_of(number)
    block = Block(
        snapshot_id=found.pack.snapshot_id,
        pack_sha256=found.pack.sha256,
        offset=found.offset,
        stored=found.stored,
        raw=found.raw,
        codec=found.codec,
        checksum=found.checksum,
    )
    return Chunk(table.ids[number], block, table.offsets[number], table.lengths[number])


def _entry(entry: EngineEntry, chunks: list[Chunk]) -> Entry:
    large = tuple((name, chunks[number].id) for name, number in entry.large_xattrs)
    places = zip(entry.refs[::2], entry.refs[1::2], strict=True)
    return Entry(
        path=entry.path,
        mode=entry.mode,
        uid=entry.uid,
        gid=entry.gid,
        size=entry.size,
        mtime_ns=entry.mtime_ns,
        flags=entry.flags,
        bits=entry.bits,
        rdev=entry.rdev,
        target=entry.target,
        is_linked=bool(entry.link),
        xattrs=entry.xattrs + large,
        content=tuple((at, chunks[number]) for at, number in places),
    )
