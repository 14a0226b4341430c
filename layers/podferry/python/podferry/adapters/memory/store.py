"""The store for tests and small tools: rows in a dict, as strict as the real one.

Rows go through the codec of the table, so that what cannot be stored fails here too and nobody
shares a mutable value with the store.
"""

from collections.abc import Iterator
from threading import Lock
from typing import TypeVar

from podferry.adapters.dynamo.codec import from_item, to_item
from podferry.adapters.dynamo.commit import check_commit, check_limit, conflict_on
from podferry.adapters.dynamo.cursor import decode_cursor, encode_cursor
from podferry.adapters.dynamo.keys import (
    ACTIVE_PK,
    OWNED_PK,
    PK,
    REVISION,
    Item,
    active_partition,
    owned_partition,
    row_key,
)
from podferry.domain.entity import Entity
from podferry.domain.errors import NotFoundError
from podferry.ports.store import Change, Check, Create, Delete, Page, Update

E = TypeVar("E", bound=Entity)


class MemoryStore:
    """A `Store` that forgets everything with the process. Safe between threads."""

    def __init__(self) -> None:
        self._rows: dict[str, Item] = {}
        self._lock = Lock()

    def find(self, kind: type[E], entity_id: str) -> E | None:
        item = self._rows.get(_name(kind, entity_id))
        return None if item is None else from_item(kind, item)

    def get(self, kind: type[E], entity_id: str) -> E:
        entity = self.find(kind, entity_id)
        if entity is None:
            raise NotFoundError(f"there is no {kind.__name__.lower()} {entity_id}")
        return entity

    def commit(self, *changes: Change) -> None:
        check_commit(changes)
        written = {_name(type(c.entity), c.entity.id): _written(c) for c in changes}
        with self._lock:
            for change in changes:
                self._check(change)
            for change, (name, item) in zip(changes, written.items(), strict=True):
                if item is not None:
                    self._rows[name] = item
                elif isinstance(change, Delete):
                    del self._rows[name]

    def _check(self, change: Change) -> None:
        entity = change.entity
        item = self._rows.get(_name(type(entity), entity.id))
        stored = None if item is None else int(item[REVISION]["N"])
        expected = None if isinstance(change, Create) else entity.revision
        if stored != expected:
            raise conflict_on(change)

    def list_owned(
        self,
        kind: type[E],
        owner: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
    ) -> Page[E]:
        check_limit(limit)
        partition = owned_partition(kind, owner)
        rows = self._select(kind, OWNED_PK, partition)
        rows.sort(key=lambda row: row.id, reverse=newest_first)
        if cursor is not None:
            last = decode_cursor(partition, cursor)
            rows = [row for row in rows if row.id != last and (row.id < last) == newest_first]
        page = rows[:limit]
        is_end = len(rows) <= limit
        return Page(page, None if is_end else encode_cursor(partition, page[-1].id))

    def list_active(self, kind: type[E]) -> Iterator[E]:
        rows = self._select(kind, ACTIVE_PK, active_partition(kind))
        return iter(sorted(rows, key=lambda row: row.id))

    def _select(self, kind: type[E], column: str, value: str) -> list[E]:
        with self._lock:
            items = list(self._rows.values())
        return [from_item(kind, item) for item in items if item.get(column) == {"S": value}]


def _name(kind: type[Entity], entity_id: str) -> str:
    name: str = row_key(kind, entity_id)[PK]["S"]
    return name


def _written(change: Change) -> Item | None:
    match change:
        case Create(entity):
            return to_item(entity, entity.revision)
        case Update(entity):
            return to_item(entity, entity.revision + 1)
        case Check() | Delete():
            return None
