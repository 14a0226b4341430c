"""The front of a function: one event in, one answer out, whatever goes wrong in between."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.utilities.typing import LambdaContext

from podferry.domain.errors import NotFoundError, PodferryError
from podferry.domain.principal import Principal
from podferry.http.body import Event, read_json, with_checked_body
from podferry.http.call import Call, as_current, current_call
from podferry.http.errors import status_of
from podferry.http.identity import principal_of
from podferry.http.methods import refusal_for
from podferry.http.problem import is_about_path, problem_response, unexpected, validation_error
from podferry.http.routing import ApiRouter
from podferry.http.use_cases import UseCases

logger = Logger(child=True)


@dataclass(frozen=True, slots=True)
class Front:
    """Checks what all requests have in common, then lets the routes answer."""

    resolver: APIGatewayHttpResolver
    body_limit_bytes: int
    pause: Callable[[float], None] = time.sleep

    def answer(self, event: Event, context: LambdaContext, use: UseCases) -> dict[str, Any]:
        """The function's answer to an HTTP API event (payload format 2.0)."""
        request_id = _request_id(event, context)
        try:
            principal = principal_of(event)
            checked = with_checked_body(event, self.body_limit_bytes)
        except PodferryError as error:
            answer = _raw(problem_response(error, request_id))
            _log(event, answer, request_id, None)
            return answer
        call = Call(
            use=use,
            principal=principal,
            request_id=request_id,
            remaining_seconds=lambda: context.get_remaining_time_in_millis() / 1000,
            pause=self.pause,
        )
        with as_current(call):
            answer = self.resolver.resolve(checked, context)
        # An answer without a body (204) has an empty one: not every gateway takes `null`.
        answer["body"] = answer.get("body") or ""
        _log(event, answer, request_id, principal)
        return answer


def make_resolver(
    routers: Iterable[ApiRouter], neighbours: Iterable[ApiRouter] = ()
) -> APIGatewayHttpResolver:
    """A resolver with these routes and an answer to everything that can go wrong.

    `neighbours` are routes that another function answers; they only matter for telling a wrong
    method from a wrong path.
    """
    resolver = APIGatewayHttpResolver(
        enable_validation=True,
        debug=False,
        json_body_deserializer=read_json,
        response_validation_error_http_code=500,
    )
    for router in routers:
        resolver.include_router(router)
    paths = _methods_by_path([*routers, *neighbours])

    # All four are needed: a handler for `Exception` alone would also take the other three and
    # turn unknown routes and malformed requests into 500.
    resolver.exception_handler(PodferryError)(_answer_error)
    resolver.exception_handler(RequestValidationError)(_answer_malformed)
    resolver.not_found(lambda _: _answer_no_route(resolver, paths))
    resolver.exception_handler(Exception)(_answer_unexpected)
    return resolver


def _methods_by_path(routers: Iterable[ApiRouter]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for router in routers:
        for path, methods in router.methods.items():
            found.setdefault(path, set()).update(methods)
    return found


def _answer_error(error: PodferryError) -> Response[str]:
    request_id = current_call().request_id
    if status_of(error) >= HTTPStatus.INTERNAL_SERVER_ERROR:
        extra = {"code": error.code, "request_id": request_id}
        logger.error("request failed", extra=extra, exc_info=error)
    return problem_response(error, request_id)


def _answer_malformed(error: RequestValidationError) -> Response[str]:
    request_id = current_call().request_id
    if is_about_path(error):
        return problem_response(NotFoundError("nothing has an id of this form"), request_id)
    return problem_response(validation_error(error), request_id)


def _answer_no_route(resolver: APIGatewayHttpResolver, paths: dict[str, set[str]]) -> Response[str]:
    event = resolver.current_event
    refusal = refusal_for(paths, event.http_method, event.path)
    return problem_response(refusal, current_call().request_id)


def _answer_unexpected(error: Exception) -> Response[str]:
    request_id = current_call().request_id
    logger.error("unexpected error", extra={"request_id": request_id}, exc_info=error)
    return problem_response(unexpected(), request_id)


def _request_id(event: Event, context: LambdaContext) -> str:
    request_id = event.get("requestContext", {}).get("requestId")
    return str(request_id or context.aws_request_id)


def _raw(response: Response[str]) -> dict[str, Any]:
    return {
        "statusCode": response.status_code,
        "headers": response.headers,
        "body": response.body,
        "isBase64Encoded": False,
    }


def _log(
    event: Event, answer: dict[str, Any], request_id: str, principal: Principal | None
) -> None:
    logger.info(
        "request answered",
        extra={
            "request_id": request_id,
            "route": f"{event['requestContext']['http']['method']} {event.get('rawPath')}",
            "status": answer["statusCode"],
            "account_id": None if principal is None else principal.account_id,
            "machine_id": None if principal is None else principal.machine_id,
        },
    )
