"""What two snapshots differ in, in the order of their names.

A page that both have is the same bytes, so it is not even read. Pages are cut where names say so:
behind a change the two find to the same cuts again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from podferry.domain.errors import InternalError
from podferry.domain.tree import Entry, differences, sort_key
from podferry.services.trees.tree import SnapshotTree, Walk


class ChangeKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class TreeChange:
    """One name; `old` is `None` if it was added, `new` if it was removed."""

    kind: ChangeKind
    old: Entry | None
    new: Entry | None
    differs_in: tuple[str, ...] = ()

    @property
    def entry(self) -> Entry:
        """What is there, or was."""
        if self.new is not None:
            return self.new
        if self.old is not None:
            return self.old
        raise InternalError("a change of nothing")


@dataclass(frozen=True, slots=True)
class Found:
    """Changes, and the key behind which to go on; `None` when all were found."""

    changes: tuple[TreeChange, ...]
    behind: bytes | None


def compare(
    old: SnapshotTree, new: SnapshotTree, start: bytes | None, *, limit: int, most_pages: int
) -> Found:
    """Up to `limit` changes from the key `start` on, reading not many more than `most_pages`."""
    changes: list[TreeChange] = []
    for key, change in _steps(old, new, start):
        if change is not None:
            changes.append(change)
        if len(changes) == limit or old.pages_read + new.pages_read >= most_pages:
            return Found(tuple(changes), key)
    return Found(tuple(changes), None)


def _steps(
    old: SnapshotTree, new: SnapshotTree, start: bytes | None
) -> Iterator[tuple[bytes, TreeChange | None]]:
    """Each name that had to be looked at, with its change if it has one."""
    left, right = Walk(old, start), Walk(new, start)
    while not (left.is_done and right.is_done):
        if left.fresh_page is not None and _is_same(left, right):
            left.skip_page()
            right.skip_page()
            continue
        before, after = left.entry, right.entry
        keys = [sort_key(entry.path) for entry in (before, after) if entry is not None]
        key = min(keys)
        if before is not None and sort_key(before.path) == key:
            left.step()
        else:
            before = None
        if after is not None and sort_key(after.path) == key:
            right.step()
        else:
            after = None
        yield key, _change(before, after)


def _is_same(left: Walk, right: Walk) -> bool:
    one, other = left.fresh_page, right.fresh_page
    return one is not None and other is not None and one.sha256 == other.sha256


def _change(old: Entry | None, new: Entry | None) -> TreeChange | None:
    if old is None:
        return TreeChange(ChangeKind.ADDED, old, new)
    if new is None:
        return TreeChange(ChangeKind.REMOVED, old, new)
    differs_in = differences(old, new)
    return TreeChange(ChangeKind.CHANGED, old, new, differs_in) if differs_in else None
