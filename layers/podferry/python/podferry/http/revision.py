"""Revisions as ETags: a change can be refused if the thing moved since it was read."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from podferry.domain.errors import ConflictError
from podferry.http.refusals import PreconditionFailedError

IF_MATCH_PATTERN = r'^(\*|"[0-9]{1,15}"( ?, ?"[0-9]{1,15}"){0,9})$'


def etag_of(revision: int) -> str:
    return f'"{revision}"'


def require_match(if_match: str | None, revision: int) -> None:
    """Refuse a change that is based on another revision.

    Raises:
        PreconditionFailedError: `if_match` names revisions, and not the present one.
    """
    if if_match is None or if_match == "*":
        return
    if str(revision) not in re.findall(r"[0-9]+", if_match):
        raise PreconditionFailedError(
            f"the present ETag is {etag_of(revision)}; read it again and repeat the change"
        )


@contextmanager
def matching(if_match: str | None) -> Iterator[None]:
    """Around the change: what moved after `require_match` is refused in the same way.

    Raises:
        PreconditionFailedError: it moved, and the request named a revision.
    """
    try:
        yield
    except ConflictError as error:
        if if_match is not None and type(error) is ConflictError:
            raise PreconditionFailedError(error.detail) from error
        raise
