"""The snapshot before this one: its chunks, its entries, and what was known of its files."""

from bisect import bisect_right

from podferry_agent.snapshot.chunks import ChunkTable
from podferry_agent.snapshot.errors import InvalidSpecError
from podferry_agent.snapshot.listings import Listings
from podferry_agent.snapshot.manifest import ManifestReader, Root, load_root
from podferry_agent.snapshot.model import (
    KEPT,
    TORN,
    UNREADABLE,
    CaptureSpec,
    Entry,
    ObjectStore,
    sort_key,
)
from podferry_agent.snapshot.rules import Rules
from podferry_agent.snapshot.statestore import Facts, StateStore


class Parent:
    """What a capture builds on; without a parent, nothing."""

    def __init__(self, spec: CaptureSpec, store: ObjectStore, state: StateStore) -> None:
        self.root: Root | None = None
        self.table = ChunkTable()
        self._facts: Facts | None = None
        self._reader: ManifestReader | None = None
        self._has_chunks = False
        self._pages: dict[int, dict[bytes, Entry]] = {}
        self._keys: list[bytes] | None = None
        if spec.parent is None:
            return
        self.root = load_root(store, spec.parent)
        if self.root.kind != spec.kind:
            raise InvalidSpecError(f"the parent {spec.parent} is of kind {self.root.kind}")
        self._reader = ManifestReader(store, self.root, state.pages)
        self.table = self._reader.table
        facts = state.facts(spec.parent)
        if facts and facts.pages == [page.name for page in self.root.pages]:
            self._facts = facts

    def listings(self, rules: Rules) -> Listings | None:
        """What an earlier walk saw, if it went by the same rules."""
        if self._facts and self._facts.rules != rules.fingerprint():
            self._facts = None
        return self._facts.listings if self._facts else None

    @property
    def firsts(self) -> list[bytes]:
        """First paths of the pages that can be patched: none without facts."""
        return self._facts.firsts if self._facts else []

    @property
    def copies(self) -> set[bytes]:
        """Databases that were stored as a copy: the parent has not the bytes of the file."""
        return set(self._facts.copies) if self._facts else set()

    def learn_chunks(self) -> None:
        """Needed before anything is stored; not if nothing changed."""
        if self._reader and not self._has_chunks:
            self._reader.learn_chunks()
        self._has_chunks = True

    def page(self, number: int) -> list[Entry]:
        if self._reader is None:
            raise AssertionError("there is no parent to read a page of")
        return self._reader.page(number)

    def good_entry(self, path: bytes) -> Entry | None:
        """The regular file at this path, if the parent has it whole."""
        entry = self.entry(path)
        if entry is None or not entry.is_regular or entry.bits & UNREADABLE:
            return None
        is_whole = not entry.bits & TORN or entry.bits & KEPT
        return entry if is_whole else None

    def owner_of(self, entry: Entry) -> str:
        """The snapshot that first had the content of one of the parent's entries."""
        return entry.kept or (self.root.snapshot_id if self.root else "")

    def entry(self, path: bytes) -> Entry | None:
        """What the parent has at a path.

        One page is read for a path; all of them where no facts say which one.
        """
        if self.root is None:
            return None
        number = bisect_right(self._first_keys(), sort_key(path)) - 1
        if number not in self._pages:
            self._pages[number] = {entry.path: entry for entry in self.page(number)}
        return self._pages[number].get(path)

    def _first_keys(self) -> list[bytes]:
        if self._keys is None:
            count = len(self.root.pages) if self.root else 0
            firsts = self.firsts or [self.page(number)[0].path for number in range(count)]
            self._keys = [sort_key(path) for path in firsts]
        return self._keys
