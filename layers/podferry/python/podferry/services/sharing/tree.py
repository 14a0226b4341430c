"""Reads a stored snapshot as entries and contents, with every byte checked, in little memory."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from podferry.domain.errors import InternalError, SnapshotCorruptError, SnapshotMissingError
from podferry.domain.snapshot import Snapshot, SnapshotKind, object_key
from podferry.ports.objects import SnapshotObjects
from podferry_agent.snapshot.chunks import Block, ChunkTable, chunk_id
from podferry_agent.snapshot.codec import Codec
from podferry_agent.snapshot.errors import ObjectNotFoundError
from podferry_agent.snapshot.manifest import Root, decode_root
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.pages import PageReader

_PACKS_KEPT = 8
"""At most 17 MiB each. Files of a page lie together, so a pack is read once for most of them."""
_BLOCKS_KEPT = 16
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class AccountObjects:
    """The engine's `ObjectStore` below one account, writing under one snapshot of it.

    No name from a manifest leads out of it: the account is not part of any.
    """

    objects: SnapshotObjects
    account_id: str
    snapshot_id: str

    def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
        key = object_key(self.account_id, self.snapshot_id, name)
        self.objects.put_once(SnapshotKind.ENVIRONMENT, key, bytes(body), sha256)

    def get(self, snapshot_id: str, name: str, start: int = 0, length: int | None = None) -> bytes:
        key = object_key(self.account_id, snapshot_id, name)
        try:
            body = self.objects.read(SnapshotKind.ENVIRONMENT, key)
        except SnapshotMissingError as error:
            raise ObjectNotFoundError(str(error)) from error
        return body if length is None else body[start : start + length]


@dataclass(slots=True)
class SnapshotPage:
    """The entries of one page, and their contents."""

    entries: list[Entry]
    table: ChunkTable
    _blocks: "_Blocks"

    def chunk(self, number: int) -> memoryview:
        """The bytes of a chunk, proven to be what was captured.

        Raises:
            SnapshotMissingError, SnapshotCorruptError: names the pack.
        """
        block, start = self.table.block_of(number), self.table.offsets[number]
        data = self._blocks.raw(block)[start : start + self.table.lengths[number]]
        if chunk_id(data, self._blocks.chunk_key) != self.table.ids[number]:
            raise SnapshotCorruptError(f"{block.pack.name}: a chunk is not what was captured")
        return data

    def content(self, entry: Entry) -> Iterator[bytes]:
        """The file piece by piece, without its holes."""
        for number in entry.refs[1::2]:
            yield bytes(self.chunk(number))


@dataclass(slots=True)
class StoredTree:
    """One committed snapshot of an environment."""

    objects: SnapshotObjects
    snapshot: Snapshot
    chunk_key: bytes
    root: Root = field(init=False)
    _blocks: "_Blocks" = field(init=False)

    def __post_init__(self) -> None:
        self.root = self._read_root()
        store = AccountObjects(self.objects, self.snapshot.account_id, self.snapshot.id)
        self._blocks = _Blocks(store, self.chunk_key)

    def page(self, number: int) -> SnapshotPage:
        """Raises: SnapshotMissingError, SnapshotCorruptError."""
        ref, table = self.root.pages[number], ChunkTable()
        body = self._blocks.store.get(ref.snapshot_id, ref.name)
        if hashlib.sha256(body).hexdigest() != ref.sha256:
            raise SnapshotCorruptError(f"{ref.name}: the page has other bytes than were stored")
        return SnapshotPage(PageReader(table).read(ref.name, body), table, self._blocks)

    def _read_root(self) -> Root:
        recorded = self.snapshot.root
        if recorded is None:
            raise InternalError(f"snapshot {self.snapshot.id} has no root")
        key = object_key(self.snapshot.account_id, self.snapshot.id, recorded.name)
        body = self.objects.read(SnapshotKind.ENVIRONMENT, key)
        if hashlib.sha256(body).hexdigest() != recorded.sha256:
            raise SnapshotCorruptError(f"{key}: the root is not the one that was committed")
        return decode_root(body, key)


class _Blocks:
    """Decoded blocks and the packs that they come from, the newest few of each."""

    def __init__(self, store: AccountObjects, chunk_key: bytes) -> None:
        self.store = store
        self.chunk_key = chunk_key
        self._codec = Codec()
        self._packs: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._raw: OrderedDict[tuple[str, str, int], memoryview] = OrderedDict()

    def raw(self, block: Block) -> memoryview:
        key = (block.pack.snapshot_id, block.pack.sha256, block.offset)
        if key not in self._raw:
            body = memoryview(self._pack(block))
            stored = body[block.offset : block.offset + block.stored]
            self._raw[key] = memoryview(self._codec.decode(block, stored))
            _keep(self._raw, _BLOCKS_KEPT)
        self._raw.move_to_end(key)
        return self._raw[key]

    def _pack(self, block: Block) -> bytes:
        key = (block.pack.snapshot_id, block.pack.sha256)
        if key not in self._packs:
            self._packs[key] = self.store.get(block.pack.snapshot_id, block.pack.name)
            _keep(self._packs, _PACKS_KEPT)
        self._packs.move_to_end(key)
        return self._packs[key]


def _keep(cache: OrderedDict[K, V], most: int) -> None:
    while len(cache) > most:
        cache.popitem(last=False)
