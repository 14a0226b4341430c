"""Lists: one page of rows and where the next one begins."""

from typing import Generic, TypeVar

from pydantic import Field

from podferry.http.models.fields import Output

V = TypeVar("V")


class PageView(Output, Generic[V]):
    """A page of a list, newest first. It may hold fewer rows than `limit` before the end."""

    data: tuple[V, ...]
    next_cursor: str | None = Field(description="Continues the list; `null` at its end.")
