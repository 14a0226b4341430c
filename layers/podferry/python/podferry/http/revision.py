"""Revisions as ETags: a change can be refused if the thing moved since it was read."""

import re

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
