"""The use case: whoever has an account looks into its own committed snapshots."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from podferry.domain.account import Account
from podferry.domain.errors import InvalidRequestError, NotFoundError
from podferry.domain.manifest import parse_pages
from podferry.domain.packages import PackageChange
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.domain.tree import Entry, behind, shown, sort_key
from podferry.ports.objects import SnapshotObjects
from podferry.services.records import Records
from podferry.services.trees.contents import Contents
from podferry.services.trees.diff import Found, compare
from podferry.services.trees.packages import compare_packages
from podferry.services.trees.tree import SnapshotTree, children
from podferry.services.verification import VerifySnapshot

MOST_PAGES = 64
"""Read for one answer, of typically 2,000 names each: some seconds of the 29 that there are."""
MOST_PAGES_FOR_PACKAGES = 200
LARGEST_PIECE = 3 * 1024 * 1024
"""Of a file: a function answers with 6 MB at most, and Base64 takes a third more."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Names in a directory, and the key behind which to go on; `None` if these are the last."""

    entries: Sequence[Entry]
    behind: bytes | None


@dataclass(frozen=True, slots=True)
class LookIntoSnapshots:
    """Without a machine, and reading only the pages and blocks that an answer needs."""

    records: Records
    objects: SnapshotObjects
    verify: VerifySnapshot

    def directory(
        self, account_id: str, snapshot_id: str, path: bytes, *, limit: int, after: bytes | None
    ) -> Listed:
        """What is in a directory, in the order of names; fewer than `limit` may not be the end.

        Raises:
            NotFoundError: no such snapshot, or nothing in it has this path.
            InvalidRequestError: the path is not that of a directory.
            SnapshotError: an object is missing or damaged. So do all methods.
        """
        tree = self._tree(self._own(account_id, snapshot_id))
        directory = _present(tree, path)
        if not directory.is_directory:
            raise InvalidRequestError(f"{shown(path)} is a {directory.kind}, not a directory")
        found: list[Entry] = []
        # Where a name ends, what is in it ends as well: the next one begins behind all of it.
        start = None if after is None else behind(after)
        for entry in islice(children(tree, path, start), limit):
            found.append(entry)
            if tree.pages_read >= MOST_PAGES:
                break
        is_last = len(found) < limit and tree.pages_read < MOST_PAGES
        return Listed(found, None if is_last else sort_key(found[-1].path))

    def file(
        self, account_id: str, snapshot_id: str, path: bytes, *, offset: int, length: int
    ) -> tuple[Entry, bytes]:
        """A piece of a file.

        Raises:
            NotFoundError: no such snapshot, or nothing in it has this path.
            InvalidRequestError: it is not a file, or its content was never captured.
        """
        snapshot = self._own(account_id, snapshot_id)
        entry = _present(self._tree(snapshot), path)
        return entry, self._contents(snapshot).read(entry, offset, length)

    def changes(
        self, account_id: str, old_id: str, new_id: str, *, limit: int, after: bytes | None
    ) -> Found:
        """What differs in the second snapshot from the first, in the order of names.

        Raises:
            NotFoundError: no such snapshot.
            InvalidRequestError: one is of an environment, the other of a volume.
        """
        old, new = self._pair(account_id, old_id, new_id)
        start = None if after is None else after + b"\0"
        return compare(self._tree(old), self._tree(new), start, limit=limit, most_pages=MOST_PAGES)

    def package_changes(
        self, account_id: str, old_id: str, new_id: str
    ) -> tuple[PackageChange, ...]:
        """Packages that were added, removed or have another version.

        Raises:
            NotFoundError: no such snapshot.
            InvalidRequestError: one is of an environment, the other of a volume; or they are too
                far from each other.
        """
        old, new = [
            (self._tree(one), self._contents(one)) for one in self._pair(account_id, old_id, new_id)
        ]
        return compare_packages(old, new, most_pages=MOST_PAGES_FOR_PACKAGES)

    def _pair(self, account_id: str, old_id: str, new_id: str) -> tuple[Snapshot, Snapshot]:
        old, new = (self._own(account_id, one) for one in (old_id, new_id))
        if old.kind != new.kind:
            raise InvalidRequestError(
                f"{old_id} is of a {old.kind}, {new_id} of a {new.kind}: nothing to compare"
            )
        return old, new

    def _own(self, account_id: str, snapshot_id: str) -> Snapshot:
        snapshot = self.records.get_own(Snapshot, account_id, snapshot_id)
        if snapshot.state != SnapshotState.COMMITTED:
            raise NotFoundError(f"no snapshot {snapshot_id} to look into: it is {snapshot.state}")
        return snapshot

    def _tree(self, snapshot: Snapshot) -> SnapshotTree:
        return SnapshotTree(snapshot, parse_pages(self.verify.root_body(snapshot)), self.objects)

    def _contents(self, snapshot: Snapshot) -> Contents:
        account = self.records.store.get(Account, snapshot.account_id)
        return Contents(snapshot, base64.b64decode(account.chunk_key), self.objects)


def _present(tree: SnapshotTree, path: bytes) -> Entry:
    entry = tree.find(path)
    if entry is None:
        raise NotFoundError(f"nothing in snapshot {tree.snapshot.id} is called {shown(path)}")
    return entry
