"""The root of a snapshot and its pages: writing them, and reading them with every byte checked."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from podferry_agent.snapshot.chunks import ChunkTable, Pack
from podferry_agent.snapshot.errors import (
    ObjectNotFoundError,
    SnapshotCorruptError,
    SnapshotMissingError,
    UnsupportedFormatError,
)
from podferry_agent.snapshot.model import REPORT_LIMIT, Entry, ObjectStore, StoredObject, display
from podferry_agent.snapshot.pages import PageReader, encode_page
from podferry_agent.snapshot.patch import Patch
from podferry_agent.snapshot.statestore import PageCache

FORMAT = 1
ROOT_NAME = "root"
_TRANSFERS = 4


@dataclass(frozen=True)
class PageRef:
    """Where a page is: an unchanged page stays with the snapshot that wrote it first."""

    snapshot_id: str
    name: str
    size: int
    sha256: str
    first: str
    entries: int
    files: int
    directories: int
    bytes: int
    packs: list[int]  # places in the root's list of packs


@dataclass(frozen=True)
class PackRef:
    snapshot_id: str
    sha256: str
    size: int


@dataclass
class Root:
    """The object that makes a snapshot exist. Written last."""

    kind: str
    snapshot_id: str
    parent: str | None
    pages: list[PageRef]
    packs: list[PackRef]
    counts: dict[str, int]
    torn: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    user_rules: list[str] = field(default_factory=list)
    volume_path: str = ""
    agent_version: str = ""
    source: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def encode(self) -> bytes:
        document = asdict(self)
        document["checksum"] = _checksum(document)
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")


def _checksum(document: dict[str, Any]) -> str:
    """SHA-256 of the document without its checksum: a restore is told only the snapshot's id."""
    plain = {key: value for key, value in document.items() if key != "checksum"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def decode_root(data: bytes, name: str) -> Root:
    try:
        document = json.loads(data)
        version = document["format"]
        if version != FORMAT:
            raise UnsupportedFormatError(
                f"{name}: snapshot format {version}; this agent reads {FORMAT}, use a newer one"
            )
        if document.pop("checksum") != _checksum(document):
            raise SnapshotCorruptError("the root has other bytes than were written", name)
        document["pages"] = [PageRef(**page) for page in document["pages"]]
        document["packs"] = [PackRef(**pack) for pack in document["packs"]]
        return Root(**document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotCorruptError(f"the root cannot be read: {error!r}", name) from error


def load_root(store: ObjectStore, snapshot_id: str, sha256: str | None = None) -> Root:
    """Read and check the root; `SnapshotMissingError` if there is no such snapshot."""
    name = f"{snapshot_id}/{ROOT_NAME}"
    try:
        data = store.get(snapshot_id, ROOT_NAME)
    except ObjectNotFoundError as error:
        raise SnapshotMissingError("the snapshot has no root", name) from error
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        raise SnapshotCorruptError("the root is not the one that was committed", name)
    root = decode_root(data, name)
    if root.snapshot_id != snapshot_id:
        raise SnapshotCorruptError(f"the root is of snapshot {root.snapshot_id}", name)
    return root


class ManifestReader:
    """Loads the pages of a root; copies on this machine are used where their hash is right."""

    def __init__(self, store: ObjectStore, root: Root, cache: PageCache) -> None:
        self.table = ChunkTable()
        self._store = store
        self._root = root
        self._cache = cache
        self._reader = PageReader(self.table)

    def entries(self) -> Iterator[Entry]:
        """All entries in order; the chunk table grows with them."""
        for number, body in enumerate(self._bodies()):
            yield from self._decoded(number, body)

    def page(self, number: int) -> list[Entry]:
        """The entries of one page; the chunk table has its chunks then."""
        return self._decoded(number, self._fetch(number))

    def learn_chunks(self) -> None:
        """Fill the chunk table, without making entries."""
        for page, body in zip(self._root.pages, self._bodies(), strict=True):
            self._reader.learn(page.name, body)

    def _bodies(self) -> Iterator[bytes]:
        with ThreadPoolExecutor(_TRANSFERS, "pf-page") as pool:
            yield from pool.map(self._fetch, range(len(self._root.pages)))

    def _decoded(self, number: int, body: bytes) -> list[Entry]:
        page = self._root.pages[number]
        entries = self._reader.read(page.name, body)
        if len(entries) != page.entries:
            raise SnapshotCorruptError("the page has another number of entries", page.name)
        return entries

    def _fetch(self, number: int) -> bytes:
        page = self._root.pages[number]
        body = self._cache.get(page.sha256)
        if body is not None:
            return body
        for _ in range(2):  # perhaps damaged on the way, not in the store: one more try
            try:
                body = self._store.get(page.snapshot_id, page.name)
            except ObjectNotFoundError as error:
                what = "no such page"
                raise SnapshotMissingError(what, page.name, self._range(number)) from error
            if hashlib.sha256(body).hexdigest() == page.sha256:
                self._cache.put(page.sha256, body)
                return body
        what = "the page has other bytes than were stored"
        raise SnapshotCorruptError(what, page.name, self._range(number))

    def _range(self, number: int) -> list[str]:
        """The files of a page that cannot be read are known only by their first names."""
        pages = self._root.pages
        upto = pages[number + 1].first if number + 1 < len(pages) else "the end"
        return [f"from {pages[number].first or '/'} to before {upto}"]


class ManifestWriter:
    """Writes the pages of a capture, except those that the parent has already."""

    def __init__(
        self, snapshot_id: str, store: ObjectStore, parent: Root | None, cache: PageCache
    ) -> None:
        self.pages: list[PageRef] = []
        self.firsts: list[bytes] = []  # path of the first entry of each page
        self.written_bytes = 0
        self._snapshot_id = snapshot_id
        self._store = store
        self._cache = cache
        self._parent = parent
        self._known = {page.sha256: page for page in parent.pages} if parent else {}
        self._packs: dict[tuple[str, str], PackRef] = {}
        self._page_packs: list[list[tuple[str, str]]] = []

    def write(
        self, patch: Patch, read_page: Callable[[int], Sequence[Entry]], table: ChunkTable
    ) -> None:
        with ThreadPoolExecutor(_TRANSFERS, "pf-page") as pool:
            uploads = []
            for group in patch.groups(read_page):
                if isinstance(group, int):
                    self._keep(group, patch.firsts[group])
                    continue
                body = encode_page(group, table)
                ref, is_new = self._ref(body, group)
                self._add(ref, group[0].path, needed_packs(group, table))
                if is_new:
                    uploads.append(pool.submit(self._put, ref, body))
            for upload in uploads:
                upload.result()

    @property
    def packs(self) -> list[PackRef]:
        """Every pack that some chunk is in, those of older snapshots included."""
        return [pack for _, pack in sorted(self._packs.items())]

    def numbered_pages(self) -> list[PageRef]:
        """The pages, each with the places of its packs in `packs`."""
        places = {key: place for place, key in enumerate(sorted(self._packs))}
        return [
            replace(page, packs=sorted(places[key] for key in keys))
            for page, keys in zip(self.pages, self._page_packs, strict=True)
        ]

    def _keep(self, number: int, first: bytes) -> None:
        if self._parent is None:
            raise AssertionError("a page can be kept only from a parent")
        page = self._parent.pages[number]
        self._add(page, first, [self._parent.packs[place] for place in page.packs])

    def _add(self, page: PageRef, first: bytes, packs: list[PackRef]) -> None:
        self.pages.append(page)
        self.firsts.append(first)
        keys = [(pack.snapshot_id, pack.sha256) for pack in packs]
        self._packs.update(zip(keys, packs, strict=True))
        self._page_packs.append(keys)

    def _ref(self, body: bytes, group: Sequence[Entry]) -> tuple[PageRef, bool]:
        sha256 = hashlib.sha256(body).hexdigest()
        known = self._known.get(sha256)
        if known:
            return known, False
        regular = [entry for entry in group if entry.is_regular]
        page = PageRef(
            snapshot_id=self._snapshot_id,
            name=f"pages/{sha256}",
            size=len(body),
            sha256=sha256,
            first=display(group[0].path),
            entries=len(group),
            files=len(regular),
            directories=sum(entry.is_directory for entry in group),
            bytes=sum(entry.size for entry in regular),
            packs=[],
        )
        return page, True

    def _put(self, ref: PageRef, body: bytes) -> None:
        self._store.put(ref.name, body, ref.sha256)
        self._cache.put(ref.sha256, body)
        self.written_bytes += len(body)

    def write_root(self, root: Root) -> StoredObject:
        body = root.encode()
        sha256 = hashlib.sha256(body).hexdigest()
        self._store.put(ROOT_NAME, body, sha256)
        return StoredObject(ROOT_NAME, len(body), sha256)


def needed_packs(entries: Iterable[Entry], table: ChunkTable) -> list[PackRef]:
    """Every pack that some entry's chunk is in."""
    packs: dict[tuple[str, str], Pack] = {}
    seen: set[int] = set()
    for entry in entries:
        for chunk in entry.chunks:
            number = table.block_numbers[chunk]
            if number not in seen:
                seen.add(number)
                pack = table.block_of(chunk).pack
                packs[pack.snapshot_id, pack.sha256] = pack
    ordered = sorted(packs.items())
    return [PackRef(owner, sha256, pack.size) for (owner, sha256), pack in ordered]


def limited(paths: Sequence[str]) -> list[str]:
    """At most as many as a report may have."""
    return list(paths[:REPORT_LIMIT])
