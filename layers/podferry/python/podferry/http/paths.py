"""Paths in snapshots as parameters, and cursors that are places between them."""

import base64
import binascii
from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from podferry.domain.errors import FieldProblem, InvalidRequestError
from podferry.domain.tree import read_back

PathInTree = Annotated[
    str,
    Query(
        max_length=8192,
        description="Relative to the tree; empty is its top. As `path` is written in answers.",
    ),
]
KeyCursor = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=6144,
        pattern=r"^[A-Za-z0-9_=-]*$",
        description="`next_cursor` of the page before this one.",
    ),
]


def path_in(text: str) -> bytes:
    """The path that a parameter names; a slash at either end is left aside.

    Raises:
        InvalidRequestError: an escape that is none, or a component that no path in a tree has.
    """
    try:
        path = read_back(text).strip(b"/")
    except ValueError as error:
        raise _refused("query path", str(error)) from error
    if any(part in {b"", b".", b".."} for part in path.split(b"/")) and path:
        raise _refused("query path", "has an empty, `.` or `..` component")
    if b"\0" in path:
        raise _refused("query path", "has a zero byte")
    return path


def cursor_of(key: bytes | None) -> str | None:
    """The cursor that goes on behind this key. The top's key is empty: `.` stands before each."""
    return None if key is None else base64.urlsafe_b64encode(b"." + key).decode()


def key_in(cursor: str | None) -> bytes | None:
    """The key that a cursor is behind.

    Raises:
        InvalidRequestError: it is not a cursor of ours.
    """
    if cursor is None:
        return None
    try:
        marked = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise _refused("query cursor", "is not a cursor of this list") from error
    if not marked.startswith(b"."):
        raise _refused("query cursor", "is not a cursor of this list")
    return marked[1:]


def _refused(where: str, problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"{where}: {problem}", fields=(FieldProblem(where, problem),))
