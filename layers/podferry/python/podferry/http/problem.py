"""Problem details (RFC 9457): how every refusal looks."""

from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field

from podferry.domain.errors import FieldProblem, InternalError, InvalidRequestError, PodferryError
from podferry.http.errors import detail_of, headers_of, status_of

PROBLEM_JSON = "application/problem+json"
LISTED_PROBLEMS = 20
WHERE_LENGTH = 200


class ProblemField(BaseModel):
    """One thing wrong with the request."""

    model_config = ConfigDict(frozen=True)

    where: str = Field(
        description="A JSON pointer into the body, or `query`, `header` or `path` and a name."
    )
    problem: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """Why a request was refused (RFC 9457)."""

    model_config = ConfigDict(frozen=True)

    type: str = Field(description="A URN that names the code.")
    title: str = Field(description="The status in words.")
    status: int
    code: str = Field(description="Stable, for programs; docs/errors.md lists them all.")
    detail: str = Field(description="For people: what, where, how to mend it.")
    request_id: str = Field(description="Finds the request in the logs.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
    errors: tuple[ProblemField, ...]


def problem_response(error: PodferryError, request_id: str) -> Response[str]:
    """The answer to a request that ended in this error."""
    status = status_of(error)
    problem = Problem(
        type=f"urn:podferry:problem:{error.code}",
        title=status.phrase,
        status=status.value,
        code=error.code,
        detail=detail_of(error),
        request_id=request_id,
        retryable=error.is_retryable,
        errors=tuple(ProblemField(where=f.where, problem=f.problem) for f in error.fields),
    )
    return Response(
        status_code=status.value,
        content_type=PROBLEM_JSON,
        body=problem.model_dump_json(),
        headers=headers_of(error),
    )


def unexpected() -> PodferryError:
    """What an error that is none of ours is shown as."""
    return InternalError("unexpected error")


def validation_error(error: RequestValidationError) -> PodferryError:
    """What the schema had against a request, in our words. Values are never repeated."""
    found = error.errors()
    fields = tuple(_field(item) for item in found[:LISTED_PROBLEMS])
    noun = "problem" if len(found) == 1 else "problems"
    return InvalidRequestError(
        f"{len(found)} {noun} in the request; `errors` says where", fields=fields
    )


def is_about_path(error: RequestValidationError) -> bool:
    """Whether a path parameter is malformed: nothing can have such an id."""
    return any(item["loc"][:1] == ("path",) for item in error.errors())


def _field(item: dict[str, Any]) -> FieldProblem:
    place, *path = item["loc"]
    if place == "body":
        where = "".join(f"/{_escape(part)}" for part in path) or "body"
    else:
        where = f"{place} {'.'.join(str(part) for part in path)}"
    return FieldProblem(_cut(where), _words(item))


def _words(item: dict[str, Any]) -> str:
    if item["type"] == "extra_forbidden":
        return "unknown field; check its spelling"
    if item["type"] == "missing":
        return "is required"
    return str(item["msg"]).removeprefix("Value error, ")


def _escape(part: object) -> str:
    """RFC 6901."""
    return str(part).replace("~", "~0").replace("/", "~1")


def _cut(where: str) -> str:
    printable = where.encode("utf-8", "replace").decode()
    return printable if len(printable) <= WHERE_LENGTH else f"{printable[:WHERE_LENGTH]}..."
