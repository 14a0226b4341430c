"""Writes what travels into the recipient's own store: other packs, other ids, other pages.

Packs hold chunks of many files, so a pack with a chunk of a file that stays behind cannot be lent.
Every chunk that is needed is read, given the id that it has under the recipient's key, and joined
with its neighbours to new packs. So nothing of the owner's store is ever readable by the recipient,
and nothing that the owner deletes is missing there.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from podferry.domain.errors import SnapshotCorruptError
from podferry.domain.share import Receipt
from podferry.domain.snapshot import SnapshotKind, StoredObject, object_key
from podferry.services.sharing.tree import AccountObjects, SnapshotPage
from podferry_agent.snapshot.chunks import ChunkTable, chunk_id
from podferry_agent.snapshot.manifest import ManifestWriter, Root
from podferry_agent.snapshot.model import KEPT, Entry, sort_key
from podferry_agent.snapshot.packs import PackWriter
from podferry_agent.snapshot.pages import PageReader, encode_page
from podferry_agent.snapshot.patch import Patch
from podferry_agent.snapshot.statestore import PageCache

_BLOCK = 1 << 20
_LISTED = 1000


@dataclass(slots=True)
class PageCopier:
    """Copies pages; what it wrote can be found by `written_pages`, so that a run can be repeated.

    A page is stored after all packs that it needs.
    """

    store: AccountObjects
    key: bytes
    _table: ChunkTable = field(default_factory=ChunkTable)
    _writer: PackWriter = field(init=False)
    _pages: list[list[Entry]] = field(default_factory=list)
    _joined: bytearray = field(default_factory=bytearray)
    _members: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._writer = PackWriter(
            self.store.snapshot_id, self.store, self._table, lambda _pack, _footer: None
        )

    def add(self, page: SnapshotPage, entries: Sequence[Entry]) -> None:
        """Copy the contents of these entries of the page."""
        if not entries:
            return
        chunks: dict[int, int] = {}
        for entry in entries:
            for number in entry.chunks:
                if number not in chunks:
                    chunks[number] = self._copied(page.chunk(number))
        self._pages.append([self._translated(entry, chunks) for entry in entries])

    def finish(self) -> None:
        """Store what is open, packs first."""
        try:
            self._flush()
            self._writer.finish()
        finally:
            self._writer.close()
        for entries in self._pages:
            put_page(self.store, entries, self._table)

    def _copied(self, data: memoryview) -> int:
        number, is_new = self._table.reserve(chunk_id(data, self.key), len(data))
        if is_new:
            if len(self._joined) + len(data) > _BLOCK:
                self._flush()
            self._members.append((number, len(self._joined)))
            self._joined += data
        return number

    def _flush(self) -> None:
        if self._members:
            self._writer.add(bytes(self._joined), self._members)
            self._joined, self._members = bytearray(), []

    def _translated(self, entry: Entry, chunks: dict[int, int]) -> Entry:
        """Ids of snapshots and hashes under the owner's key stay behind, too."""
        numbers = [chunks[number] for number in entry.refs[1::2]]
        pairs = zip(entry.refs[::2], numbers, strict=True)
        return replace(
            entry,
            bits=entry.bits & ~KEPT,
            kept="",
            link=chunk_id(entry.link, self.key)[:16] if entry.link else b"",
            refs=tuple(value for pair in pairs for value in pair),
            large_xattrs=tuple((name, chunks[number]) for name, number in entry.large_xattrs),
        )


def put_page(store: AccountObjects, entries: Sequence[Entry], table: ChunkTable) -> None:
    """Store one page; the same page again is no error."""
    body = encode_page(entries, table)
    sha256 = hashlib.sha256(body).hexdigest()
    store.put(f"pages/{sha256}", body, sha256)


def write_root(store: AccountObjects, source: Root, receipt: Receipt) -> tuple[StoredObject, Root]:
    """The root over all pages that were copied; what it says has to be what the receipt says.

    Raises:
        SnapshotCorruptError: something is missing of what was sealed, or there is more of it.
    """
    table = ChunkTable()
    with tempfile.TemporaryDirectory() as directory:
        writer = ManifestWriter(store.snapshot_id, store, None, PageCache(Path(directory)))
        writer.write(_Written(lambda: written_pages(store, table)), _no_parent, table)
    counts = {
        "entries": sum(page.entries for page in writer.pages),
        "files": sum(page.files for page in writer.pages),
        "directories": sum(page.directories for page in writer.pages),
        "bytes": sum(page.bytes for page in writer.pages),
    }
    if (counts["entries"], counts["files"], counts["bytes"]) != (
        receipt.entries,
        receipt.files,
        receipt.bytes,
    ):
        raise SnapshotCorruptError(
            f"the copy has {counts['entries']} entries, {counts['files']} files and "
            f"{counts['bytes']} bytes; sealed were {receipt.entries}, {receipt.files} and "
            f"{receipt.bytes}"
        )
    root = Root(
        kind=SnapshotKind.ENVIRONMENT,
        snapshot_id=store.snapshot_id,
        parent=None,
        pages=writer.numbered_pages(),
        packs=writer.packs,
        counts={**counts, "torn": source.counts["torn"], "unreadable": source.counts["unreadable"]},
        user_rules=source.user_rules,
        volume_path=source.volume_path,
        agent_version=source.agent_version,
    )
    stored = writer.write_root(root)
    return StoredObject(name=stored.name, size=stored.size, sha256=stored.sha256), root


class _Written(Patch):
    """The pages that are there already, as a manifest writer takes them."""

    def __init__(self, pages: Callable[[], Iterator[list[Entry]]]) -> None:
        super().__init__([])
        self._pages = pages

    def groups(self, _read_page: Callable[[int], Sequence[Entry]]) -> Iterator[int | list[Entry]]:
        yield from self._pages()


def _no_parent(number: int) -> Sequence[Entry]:
    raise AssertionError(f"page {number} of a parent that there is not")


def written_pages(store: AccountObjects, table: ChunkTable) -> Iterator[list[Entry]]:
    """All pages in order. Of a page that two runs wrote, with the same entries, one."""
    firsts: dict[bytes, str] = {}
    for name in _page_names(store):
        entries = PageReader(ChunkTable()).read(name, store.get(store.snapshot_id, name))
        firsts.setdefault(entries[0].path, name)
    for path in sorted(firsts, key=sort_key):
        name = firsts[path]
        yield PageReader(table).read(name, store.get(store.snapshot_id, name))


def _page_names(store: AccountObjects) -> Iterator[str]:
    prefix = object_key(store.account_id, store.snapshot_id, "")
    after: str | None = None
    while True:
        listed = store.objects.listed(SnapshotKind.ENVIRONMENT, f"{prefix}pages/", after, _LISTED)
        yield from (one.key.removeprefix(prefix) for one in listed)
        if len(listed) < _LISTED:
            return
        after = listed[-1].key
