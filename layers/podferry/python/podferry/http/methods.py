"""Telling a wrong method from a wrong path."""

import re
from collections.abc import Iterable, Mapping

from podferry.domain.errors import NotFoundError, PodferryError
from podferry.http.refusals import MethodNotAllowedError, RouteNotFoundError


def refusal_for(paths: Mapping[str, Iterable[str]], method: str, path: str) -> PodferryError:
    """Why no route took the request; `paths` are the methods of each path, like `/v1/pods/<id>`."""
    for rule, allowed in paths.items():
        if not _pattern(rule).fullmatch(path):
            continue
        if method in allowed:
            # The framework's routes take only characters that an id might have.
            return NotFoundError("nothing has an id of this form")
        names = tuple(sorted(allowed))
        return MethodNotAllowedError(
            f"{method} does not work here; use {' or '.join(names)}", allowed=names
        )
    return RouteNotFoundError("no such path; GET /docs lists all of them")


def _pattern(rule: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<\w+>", "[^/]+", rule))
