"""Successful answers with the headers that belong to them."""

from typing import TypeVar

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel

from podferry.domain.operation import Operation, OperationState
from podferry.http.call import Call
from podferry.http.models.operation import OperationView
from podferry.http.revision import etag_of
from podferry.http.routing import Answer
from podferry.http.waiting import wait_for

V = TypeVar("V", bound=BaseModel)

JSON = "application/json"
POLL_SECONDS = "2"
"""How often it is worth asking for an operation; they take from seconds to minutes."""

REPLAYED = ("Idempotent-Replayed",)
GONE = {204: Answer(None, "It is gone.")}
OPERATION_ANSWERS = {
    202: Answer(
        OperationView,
        "The operation has begun.",
        ("Location", "Retry-After", "Idempotent-Replayed"),
    ),
    200: Answer(
        OperationView,
        "The operation has ended within the time of `Prefer: wait`.",
        ("Location", "Idempotent-Replayed"),
    ),
}


def found(view: V, revision: int | None = None) -> Response[V]:
    """200, with the revision as ETag if there is one."""
    headers = {} if revision is None else {"ETag": etag_of(revision)}
    return Response(200, JSON, view, headers)


def made(view: V, location: str | None = None) -> Response[V]:
    """201."""
    return Response(201, JSON, view, {} if location is None else {"Location": location})


def gone() -> Response[None]:
    """204."""
    return Response(204)


def has_ended(operation: Operation) -> bool:
    return operation.state != OperationState.RUNNING


def begun(call: Call, operation: Operation, prefer: str | None) -> Response[OperationView]:
    """202 with an operation that is at work, or 200 if it ended while the caller waited."""
    browse = call.use.browse
    seen = wait_for(
        call, prefer, lambda: browse.operation(call.account_id, operation.id), has_ended
    )
    view = OperationView.of(seen, browse.progress(seen))
    headers = {"Location": f"/v1/operations/{seen.id}"}
    if has_ended(seen):
        return Response(200, JSON, view, headers)
    return Response(202, JSON, view, {**headers, "Retry-After": POLL_SECONDS})
