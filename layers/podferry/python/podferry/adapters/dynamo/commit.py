"""What every store of ours refuses, and how it says so."""

from collections.abc import Sequence

from podferry.domain.errors import ConflictError, InternalError
from podferry.ports.store import Change, Create

COMMIT_LIMIT = 100
"""Rows in one transaction; DynamoDB takes no more."""


def check_commit(changes: Sequence[Change]) -> None:
    """Refuse what cannot be one transaction.

    Raises:
        InternalError: nothing to do, too much to do, or one row named twice.
    """
    if not changes:
        raise InternalError("a commit needs at least one change")
    if len(changes) > COMMIT_LIMIT:
        raise InternalError(f"{len(changes)} changes in one commit; {COMMIT_LIMIT} are possible")
    seen = set()
    for change in changes:
        row = (type(change.entity).PREFIX, change.entity.id)
        if row in seen:
            raise InternalError(f"{' '.join(row)} is named twice in one commit")
        seen.add(row)


def check_limit(limit: int) -> None:
    """Refuse a page without rows."""
    if limit < 1:
        raise InternalError(f"a page needs room for at least one row, not {limit}")


def conflict_on(change: Change) -> ConflictError:
    """What to raise for a change whose row is not as the change expects."""
    if isinstance(change, Create):
        return ConflictError(f"{change.entity.id} exists already; read it before you write it")
    return ConflictError(f"{change.entity.id} was written by someone else meanwhile; read it again")
