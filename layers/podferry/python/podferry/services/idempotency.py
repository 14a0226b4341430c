"""An Idempotency-Key is one effect (promise 10): its row is written together with the effect.

The HTTP layer opens a guard around a request. The first commit inside the guard also creates the
reply's row, so that a second request with the same key cannot commit anything: either both the
effect and the row exist, or neither does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from podferry.domain.entity import Entity
from podferry.domain.errors import ConflictError, PayloadMismatchError
from podferry.domain.reply import Reply
from podferry.ports.store import Change, Create, Delete, Page, Store, Update
from podferry.ports.surroundings import Clock

E = TypeVar("E", bound=Entity)

KEEP_REPLIES = timedelta(hours=24)
REQUEST_MAY_TAKE = timedelta(seconds=60)
"""Longer than any request lives: after that an unanswered one died."""


class RequestInProgressError(ConflictError):
    """The first request with this Idempotency-Key is still at work; ask again."""

    code = "request_in_progress"
    is_retryable = True


class ReplyLostError(ConflictError):
    """The first request with this Idempotency-Key took effect, but its answer was never stored."""

    code = "reply_lost"


@dataclass(slots=True)
class Guard:
    """One request with an Idempotency-Key."""

    reply: Reply
    has_taken_effect: bool = False


_current: ContextVar[Guard | None] = ContextVar("idempotency_guard", default=None)


@contextmanager
def guarded(reply: Reply) -> Iterator[Guard]:
    """Tie the first commit inside the block to `reply`."""
    guard = Guard(reply)
    token = _current.set(guard)
    try:
        yield guard
    finally:
        _current.reset(token)


class GuardedStore:
    """A `Store` that ties the first commit of a guarded request to the request's key."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def find(self, kind: type[E], entity_id: str) -> E | None:
        return self._inner.find(kind, entity_id)

    def get(self, kind: type[E], entity_id: str) -> E:
        return self._inner.get(kind, entity_id)

    def commit(self, *changes: Change) -> None:
        """See `Store`.

        Raises:
            RequestInProgressError: another request with the same key committed first.
        """
        guard = _current.get()
        if guard is None or guard.has_taken_effect:
            self._inner.commit(*changes)
            return
        try:
            self._inner.commit(*changes, Create(guard.reply))
        except ConflictError as error:
            if self._inner.find(Reply, guard.reply.id) is None:
                raise
            raise RequestInProgressError(
                "another request with this Idempotency-Key was faster; ask again for its answer"
            ) from error
        guard.has_taken_effect = True

    def list_owned(
        self,
        kind: type[E],
        owner: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
    ) -> Page[E]:
        return self._inner.list_owned(
            kind, owner, limit=limit, cursor=cursor, newest_first=newest_first
        )

    def list_active(self, kind: type[E]) -> Iterator[E]:
        return self._inner.list_active(kind)


@dataclass(frozen=True, slots=True)
class Replies:
    """Answers that were given for Idempotency-Keys."""

    store: Store
    clock: Clock

    def new(self, reply_id: str, account_id: str, request_sha256: str) -> Reply:
        """A reply to open a guard with; nothing is stored yet."""
        now = self.clock.now()
        return Reply(
            id=reply_id,
            account_id=account_id,
            created_at=now,
            request_sha256=request_sha256,
            expires_at=now + KEEP_REPLIES,
        )

    def recall(self, reply_id: str, request_sha256: str) -> Reply | None:
        """The answer that the key stands for; `None` if the key is free.

        Raises:
            PayloadMismatchError: the key was used with another request.
            RequestInProgressError: the first request is at work.
            ReplyLostError: the first request died after its effect.
        """
        reply = self.store.find(Reply, reply_id)
        if reply is None:
            return None
        now = self.clock.now()
        if reply.expires_at is not None and reply.expires_at <= now:
            # The table may keep rows for days past their time; the key is free all the same.
            self.store.commit(Delete(reply))
            return None
        if reply.request_sha256 != request_sha256:
            raise PayloadMismatchError(
                "this Idempotency-Key was used with another body; use a new key for a new request"
            )
        if reply.status is not None:
            return reply
        if now - reply.created_at < REQUEST_MAY_TAKE:
            raise RequestInProgressError("the first request with this Idempotency-Key is at work")
        raise ReplyLostError(
            "the first request with this Idempotency-Key took effect, but its answer was not "
            "stored; look at what it makes (GET on the same path) or at the pod's events"
        )

    def store_answer(
        self, reply: Reply, status: int, body: dict[str, Any] | None, headers: dict[str, str]
    ) -> None:
        """Keep the answer of a request that took effect."""
        stored = self.store.get(Reply, reply.id)
        self.store.commit(Update(replace(stored, status=status, body=body, headers=headers)))
