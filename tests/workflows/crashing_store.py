"""A store whose process dies at a chosen commit."""

from collections.abc import Callable, Sequence
from typing import Any

from podferry.domain.errors import ConflictError
from podferry.ports.store import Change, Store


class Crash(BaseException):
    """The process that runs the code dies at this line."""


class CrashingStore:
    """Dies before or after its n-th commit, or refuses each one a few times first."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.commits = 0
        self.crash_at: int | None = None
        self.crash_after_writing = False
        self.conflicts = 0
        """How often each commit is refused before it is taken."""
        self._refused = 0
        self.before_commit: Callable[[], None] = lambda: None
        """Called when a process has read its rows and is about to write."""
        self.after_commit: Callable[[Sequence[Change]], None] = lambda _: None
        """Called with what was written."""

    def find(self, kind: type[Any], entity_id: str) -> Any:
        return self._inner.find(kind, entity_id)

    def get(self, kind: type[Any], entity_id: str) -> Any:
        return self._inner.get(kind, entity_id)

    def commit(self, *changes: Change) -> None:
        self.before_commit()
        if self._refused < self.conflicts:
            self._refused += 1
            raise ConflictError("somebody else was faster")
        self._refused = 0
        self.commits += 1
        is_last = self.commits == self.crash_at
        if is_last and not self.crash_after_writing:
            raise Crash
        self._inner.commit(*changes)
        self.after_commit(changes)
        if is_last:
            raise Crash

    def list_owned(self, kind: type[Any], owner: str, **options: Any) -> Any:
        return self._inner.list_owned(kind, owner, **options)

    def list_active(self, kind: type[Any]) -> Any:
        return self._inner.list_active(kind)
