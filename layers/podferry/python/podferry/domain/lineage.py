"""Which committed snapshots decide over the objects that lie under another one.

A snapshot needs objects of its own and such that its parent needs; verification lets nothing else
become committed. So whoever needs an object of G descends from G, and all between the two need it
as well. Asking the *nearest* committed descendants of G is therefore asking all of them.
"""

from collections.abc import Iterable

from podferry.domain.snapshot import Snapshot, SnapshotState


class Lineage:
    """All snapshots of one kind of one account, from parents to children."""

    def __init__(self, snapshots: Iterable[Snapshot]) -> None:
        self._committed: set[str] = set()
        self._children: dict[str, list[str]] = {}
        self._known: set[str] = set()
        self._keepers: dict[str, tuple[str, ...]] = {}
        for snapshot in snapshots:
            self._known.add(snapshot.id)
            if snapshot.state == SnapshotState.COMMITTED:
                self._committed.add(snapshot.id)
            for stem in snapshot.stems:
                self._children.setdefault(stem, []).append(snapshot.id)

    def missing(self, heads: Iterable[str]) -> frozenset[str]:
        """Snapshots that must exist and are not here: nothing can be concluded without them."""
        return frozenset((self._children.keys() | set(heads)) - self._known)

    def children(self, snapshot_id: str) -> tuple[str, ...]:
        return tuple(self._children.get(snapshot_id, ()))

    def keepers(self, snapshot_id: str) -> tuple[str, ...]:
        """The nearest committed ones on every way down, beginning with the snapshot itself."""
        todo = [snapshot_id]
        while todo:
            at = todo[-1]
            open_ones = self._open_children(at)
            if open_ones:
                todo += open_ones
                continue
            self._keepers[at] = self._joined(at)
            todo.pop()
        return self._keepers[snapshot_id]

    def remove(self, snapshot_id: str, stems: Iterable[str]) -> None:
        """Its children hang from what it hung from; nobody's keepers change by that."""
        children = self._children.pop(snapshot_id, [])
        for stem in stems:
            siblings = self._children.setdefault(stem, [])
            siblings[:] = [*(one for one in siblings if one != snapshot_id), *children]
        self._known.discard(snapshot_id)

    def _open_children(self, at: str) -> list[str]:
        if at in self._committed:
            return []
        return [child for child in self.children(at) if child not in self._keepers]

    def _joined(self, at: str) -> tuple[str, ...]:
        if at in self._committed:
            return (at,)
        return tuple(sorted({k for child in self.children(at) for k in self._keepers[child]}))
