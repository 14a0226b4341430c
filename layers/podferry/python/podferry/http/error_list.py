"""The list of all error codes, made from the error tree; `podferry.http.openapi` writes it."""

from collections.abc import Iterator

from podferry.domain.errors import PodferryError
from podferry.http.errors import STATUS

_HEAD = """\
# Errors

Every refusal of the API is `application/problem+json` with one of these codes. The same codes stand
in `error.code` of operations and in `last_error.code` of pods, where no status applies.
"Again" says whether the same request may succeed later. Made from the code by `make openapi`.

| code | status | again | meaning |
|---|---|---|---|
"""


def error_classes(root: type[PodferryError] = PodferryError) -> Iterator[type[PodferryError]]:
    """Our whole tree, parents before children."""
    yield root
    for child in root.__subclasses__():
        if child.__module__.startswith("podferry."):
            yield from error_classes(child)


def rendered() -> str:
    """The list as it is stored."""
    rows = sorted({_row(kind) for kind in error_classes() if kind is not PodferryError})
    return _HEAD + "".join(rows)


def _row(kind: type[PodferryError]) -> str:
    again = "yes" if kind.is_retryable else "no"
    meaning = (kind.__doc__ or "").partition("\n")[0]
    return f"| `{kind.code}` | {STATUS[kind].value} | {again} | {meaning} |\n"
