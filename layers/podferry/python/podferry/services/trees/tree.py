"""A snapshot's names, in order, with only those pages read that are looked at."""

import hashlib
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from podferry.domain.errors import SnapshotCorruptError
from podferry.domain.manifest import PageRef
from podferry.domain.snapshot import Snapshot, object_key
from podferry.domain.tree import Entry, behind, first_path, sort_key
from podferry.ports.objects import SnapshotObjects
from podferry.services.trees.page import Page, decode_page

_KEPT_PAGES = 8


@dataclass(slots=True)
class SnapshotTree:
    """`pages_read` counts: whoever has to be done in time looks at it."""

    snapshot: Snapshot
    pages: Sequence[PageRef]
    objects: SnapshotObjects
    pages_read: int = 0
    _kept: OrderedDict[int, Page] = field(default_factory=OrderedDict)

    def page(self, number: int) -> Page:
        """A page, read and compared with its hash.

        Raises:
            SnapshotMissingError, SnapshotCorruptError.
        """
        if number not in self._kept:
            self._kept[number] = self._read(self.pages[number])
            if len(self._kept) > _KEPT_PAGES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(number)
        return self._kept[number]

    def find(self, path: bytes) -> Entry | None:
        """What has exactly this path."""
        key = sort_key(path)
        entry = self.first_from(key)
        return entry if entry is not None and entry.path == path else None

    def first_from(self, key: bytes) -> Entry | None:
        """The first name whose key is not less."""
        at = self.place_of(key)
        return None if at is None else self.page(at[0]).entries[at[1]]

    def place_of(self, key: bytes) -> tuple[int, int] | None:
        """Number of the page and place in it of the first name whose key is not less."""
        if not self.pages:
            return None
        number = max(0, bisect_right(range(len(self.pages)), key, key=self._first_key) - 1)
        place = bisect_left(self.page(number).keys, key)
        if place < len(self.page(number).keys):
            return number, place
        return (number + 1, 0) if number + 1 < len(self.pages) else None

    def _first_key(self, number: int) -> bytes:
        path = first_path(self.pages[number].first)
        return self.page(number).keys[0] if path is None else sort_key(path)

    def _read(self, ref: PageRef) -> Page:
        self.pages_read += 1
        key = object_key(self.snapshot.account_id, ref.snapshot_id, ref.name)
        body = self.objects.read(self.snapshot.kind, key)
        if hashlib.sha256(body).hexdigest() != ref.sha256:
            raise SnapshotCorruptError(
                f"snapshot {self.snapshot.id}: {ref.name} of {ref.snapshot_id} has other bytes"
            )
        page = decode_page(ref.name, body)
        if not page.entries:
            raise SnapshotCorruptError(f"snapshot {self.snapshot.id}: {ref.name} is empty")
        return page


class Walk:
    """Goes through a tree from a key on; at the begin of a page nothing of it is read yet."""

    def __init__(self, tree: SnapshotTree, key: bytes | None) -> None:
        self._tree = tree
        self._page, self._place = 0, 0
        if key is not None:
            self._page, self._place = tree.place_of(key) or (len(tree.pages), 0)

    @property
    def is_done(self) -> bool:
        return self._page >= len(self._tree.pages)

    @property
    def fresh_page(self) -> PageRef | None:
        """The page that comes next as a whole, if it does."""
        return None if self.is_done or self._place else self._tree.pages[self._page]

    @property
    def entry(self) -> Entry | None:
        """The present name; `None` at the end."""
        return None if self.is_done else self._tree.page(self._page).entries[self._place]

    def step(self) -> None:
        self._place += 1
        if self._place == len(self._tree.page(self._page).entries):
            self.skip_page()

    def skip_page(self) -> None:
        self._page, self._place = self._page + 1, 0


def children(tree: SnapshotTree, directory: bytes, key: bytes | None) -> Iterator[Entry]:
    """What is right in a directory, from a key on; what is deeper is leapt over, page by page."""
    prefix = sort_key(directory) + b"\0" if directory else b""
    at = key or prefix or b"\x01"
    while (entry := tree.first_from(at)) is not None:
        found = sort_key(entry.path)
        if not found.startswith(prefix):
            return
        yield entry
        at = behind(found)
