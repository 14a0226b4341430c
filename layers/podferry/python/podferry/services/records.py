"""What every use case needs to write state: ids, the time, events, and a second try on conflict."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from podferry.domain.entity import Entity
from podferry.domain.errors import ConflictError, NotFoundError
from podferry.domain.event import Event
from podferry.domain.ids import RANDOM_BITS, new_id
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Create, Store
from podferry.ports.surroundings import Clock, Randomness

E = TypeVar("E", bound=Entity)

CONFLICT_TRIES = 6
PAGE = 100


@dataclass(frozen=True, slots=True)
class Records:
    """The store together with the clock and the randomness that new rows need."""

    store: Store
    clock: Clock
    randomness: Randomness

    def now(self) -> datetime:
        return self.clock.now()

    def new_id(self, kind: type[Entity]) -> str:
        return new_id(kind.PREFIX, self.now(), self.randomness.bits(RANDOM_BITS))

    def get_own(self, kind: type[E], account_id: str, entity_id: str) -> E:
        """The row if it belongs to the account.

        Raises:
            NotFoundError: no such row, or it is another account's: the two look the same.
        """
        entity = self.store.find(kind, entity_id)
        if entity is None or entity.account_id != account_id:
            raise NotFoundError(f"no {kind.__name__.lower()} {entity_id} in this account")
        return entity

    def all_owned(self, kind: type[E], owner: str, *, newest_first: bool = False) -> Iterator[E]:
        """Every row that is listed under the owner, page by page."""
        cursor: str | None = None
        while True:
            page = self.store.list_owned(
                kind, owner, limit=PAGE, cursor=cursor, newest_first=newest_first
            )
            yield from page.items
            cursor = page.cursor
            if cursor is None:
                return

    def pod_event(
        self, pod: Pod, event_type: str, operation: Operation | None = None, **evidence: Any
    ) -> Create:
        """An event under the pod, to be written together with the change that it tells of."""
        cause = "user" if operation is None else str(operation.cause)
        operation_id = None if operation is None else operation.id
        return self._event(pod, event_type, cause, operation_id, evidence)

    def background_event(self, pod: Pod, event_type: str, **evidence: Any) -> Create:
        """Like `pod_event`, of something that nobody asked for."""
        return self._event(pod, event_type, "background", None, evidence)

    def volume_event(self, volume: Volume, event_type: str, cause: str, **evidence: Any) -> Create:
        """An event under the volume: of what is done to it while no pod runs it."""
        return self._event(volume, event_type, cause, None, evidence)

    def _event(
        self,
        subject: Entity,
        event_type: str,
        cause: str,
        operation_id: str | None,
        evidence: dict[str, Any],
    ) -> Create:
        return Create(
            Event(
                id=self.new_id(Event),
                account_id=subject.account_id,
                created_at=self.now(),
                subject_id=subject.id,
                type=event_type,
                cause=cause,
                operation_id=operation_id,
                evidence=evidence,
            )
        )

    def apply(self, plan: Callable[[], Sequence[Change]]) -> None:
        """Commit what `plan` makes of the present rows; on a conflict read again and retry.

        `plan` reads the rows itself and may return nothing to do. Rules are checked in `plan`, so
        that each try checks them against fresh rows.

        Raises:
            ConflictError: the rows kept moving.
        """
        for attempt in range(CONFLICT_TRIES):
            changes = plan()
            if not changes:
                return
            try:
                self.store.commit(*changes)
            except ConflictError:
                if attempt == CONFLICT_TRIES - 1:
                    raise
            else:
                return
