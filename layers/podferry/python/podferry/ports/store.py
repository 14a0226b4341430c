"""Where state is kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from podferry.domain.entity import Entity

E = TypeVar("E", bound=Entity)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Create:
    """Write a new row; refused if the id exists."""

    entity: Entity


@dataclass(frozen=True, slots=True)
class Update:
    """Write a row whose `revision` is still the stored one; the stored one becomes +1."""

    entity: Entity


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but refuse the whole commit if the row moved since it was read."""

    entity: Entity


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a row whose `revision` is still the stored one."""

    entity: Entity


Change = Create | Update | Check | Delete


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A piece of a list; `cursor` continues it and is `None` at the end."""

    items: Sequence[T]
    cursor: str | None


class Store(Protocol):
    """The rows of one deployment. Every write is conditional; reads by id are consistent.

    No method waits for anything but the store itself. Throttling and passing faults are retried
    inside; what still fails comes out as `InternalError`.
    """

    def find(self, kind: type[E], entity_id: str) -> E | None:
        """The row, read consistently, or `None`. Safe to call any number of times."""

    def get(self, kind: type[E], entity_id: str) -> E:
        """Like `find`.

        Raises:
            NotFoundError: no such row.
        """

    def commit(self, *changes: Change) -> None:
        """Carry out all changes or none of them, atomically.

        Calling it twice is safe in this sense: the second call is refused, never doubled.

        Raises:
            ConflictError: a `Create` met an existing id, or another change another revision.
                Nothing was written.
        """

    def list_owned(
        self,
        kind: type[E],
        owner: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
    ) -> Page[E]:
        """Rows with this `owner`, in the order of their ids. May lag a moment behind writes.

        Raises:
            InvalidRequestError: the cursor is not one of ours.
        """

    def list_active(self, kind: type[E]) -> Iterator[E]:
        """Every row of the kind whose `is_active` is true. May lag a moment behind writes."""
