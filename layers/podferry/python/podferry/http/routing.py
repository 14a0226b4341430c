"""How routes are declared: one decorator that checks rights and documents every answer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel

from podferry.domain.account import Scope
from podferry.domain.errors import (
    FieldProblem,
    ForbiddenError,
    InvalidRequestError,
    TokenInvalidError,
)
from podferry.domain.principal import Principal, PrincipalKind
from podferry.http.body import METHODS_WITH_BODY
from podferry.http.call import current_call
from podferry.http.problem import PROBLEM_JSON, Problem
from podferry.http.replies import answer_once

F = TypeVar("F", bound=Callable[..., Any])
Middleware = Callable[..., Response[Any]]

ALWAYS = (400, 401, 403, 404, 500)
WITH_BODY = (413, 415)
WITH_KEY = (409, 422)

HEADERS: dict[str, dict[str, Any]] = {
    "ETag": {"description": "The revision, for If-Match.", "schema": {"type": "string"}},
    "Location": {"description": "Where to look for it.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds until it is worth asking again.",
                    "schema": {"type": "integer", "minimum": 1}},
    "Idempotent-Replayed": {"description": "`true` if this answer was given before.",
                            "schema": {"type": "string", "enum": ["true"]}},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """One kind of success of a route."""

    model: type[BaseModel] | None
    description: str
    headers: tuple[str, ...] = ()
    media: str | None = None
    """Of an answer that is text of another kind than JSON."""


class ApiRouter(Router):
    """The routes of one area."""

    def __init__(self, tag: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the framework has no types here
        self._tag = tag
        self.methods: dict[str, set[str]] = {}
        """Methods by path, to tell a wrong method from a wrong path."""

    def operation(
        self,
        method: str,
        path: str,
        *,
        needs: Scope | PrincipalKind,
        answers: Mapping[int, Answer],
        refusals: Iterable[int] = (),
    ) -> Callable[[F], F]:
        """Declare a route: the function's docstring becomes its description.

        `needs` is a scope of a user's key, or the kind of token of a machine. `refusals` are
        statuses of problems besides those that every route has.
        """
        takes_key = method == "POST" and isinstance(needs, Scope)
        self.methods.setdefault(path, set()).add(method)

        def register(function: F) -> F:
            summary, _, description = (function.__doc__ or "").partition("\n")
            refused = {*ALWAYS, *refusals, *(WITH_KEY if takes_key else ())}
            refused |= set(WITH_BODY if method in METHODS_WITH_BODY else ())
            self.route(
                path,
                method,
                summary=summary,
                description="\n".join(s.strip() for s in description.strip().splitlines()) or None,
                responses=documented(answers, refused),
                tags=[self._tag],
                operation_id=function.__name__,
                security=[{security_of(needs): []}],
                middlewares=[
                    check_right(needs),
                    refuse_unknown_query(query_names(function)),
                    *([answer_once] if takes_key else []),
                ],
            )(function)
            return function

        return register


def security_of(needs: Scope | PrincipalKind) -> str:
    """The security scheme's name in the API description."""
    if isinstance(needs, Scope):
        return "operator_key" if needs == Scope.ADMIN else "api_key"
    return f"{needs}_token"


def check_right(needs: Scope | PrincipalKind) -> Middleware:
    """A middleware that lets only holders of the right token through."""

    def check(app: APIGatewayHttpResolver, next_middleware: Middleware) -> Response[Any]:
        _require(current_call().principal, needs)
        return next_middleware(app)

    return check


def _require(principal: Principal, needs: Scope | PrincipalKind) -> None:
    if isinstance(needs, PrincipalKind):
        if principal.kind != needs:
            raise TokenInvalidError(f"this route takes a {needs} token")
        return
    if principal.kind in {PrincipalKind.MACHINE, PrincipalKind.BOOT}:
        raise TokenInvalidError("this route takes an API key; tokens of machines open nothing here")
    if not principal.may(needs):
        raise ForbiddenError(f"this key lacks the scope {needs}")


def refuse_unknown_query(known: frozenset[str]) -> Middleware:
    """A middleware that refuses misspelt query parameters instead of ignoring them."""

    def check(app: APIGatewayHttpResolver, next_middleware: Middleware) -> Response[Any]:
        given = app.current_event.query_string_parameters or {}
        unknown = sorted(set(given) - known)
        if unknown:
            names = ", ".join(sorted(known)) or "none"
            problem = f"unknown parameter; this route knows: {names}"
            fields = tuple(FieldProblem(f"query {name[:64]}", problem) for name in unknown[:20])
            raise InvalidRequestError("unknown query parameters", fields=fields)
        return next_middleware(app)

    return check


def query_names(function: Callable[..., Any]) -> frozenset[str]:
    """The query parameters in a route function's signature."""
    hints = get_type_hints(function, include_extras=True)
    return frozenset(
        next(m.alias for m in get_args(hint) if isinstance(m, Query)) or name
        for name, hint in hints.items()
        if get_origin(hint) is Annotated and any(isinstance(m, Query) for m in get_args(hint))
    )


def documented(answers: Mapping[int, Answer], refusals: Iterable[int]) -> dict[int, Any]:
    """Every answer of a route, for the API description."""
    successes = {status: _success(answer) for status, answer in answers.items()}
    return {**successes, **{status: _refusal(status) for status in sorted(refusals)}}


def _success(answer: Answer) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if answer.model is not None:
        content = {"application/json": {"model": answer.model}}
    elif answer.media is not None:
        content = {answer.media: {"schema": {"type": "string"}}}
    headers = {name: HEADERS[name] for name in answer.headers}
    return {"description": answer.description, "content": content, "headers": headers}


def _refusal(status: int) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {PROBLEM_JSON: {"model": Problem}},
    }
