"""Idempotency-Key on every POST of users: the same request twice is one effect and one answer."""

import hmac
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from podferry.domain.errors import FieldProblem, InvalidRequestError, PodferryError
from podferry.domain.reply import Reply
from podferry.http.call import Call, current_call
from podferry.services.idempotency import Guard, guarded

HEADER = "idempotency-key"
PATTERN = r"^[\x20-\x7e]{1,255}$"
_KEY = re.compile(PATTERN)
_KEPT_HEADERS = frozenset({"Location", "ETag", "Retry-After"})
SECRET_FIELDS = frozenset({"token"})
"""Shown once and kept nowhere, so a repeated answer has `null` in their place."""

logger = Logger(child=True)


def answer_once(
    app: APIGatewayHttpResolver, next_middleware: Callable[..., Response[Any]]
) -> Response[Any]:
    """Middleware: give the answer of the first request with this key, or be that request."""
    key = app.current_event.headers.get(HEADER)
    if key is None:
        return next_middleware(app)
    if not _KEY.fullmatch(key):
        problem = FieldProblem("header Idempotency-Key", "give 1 to 255 printable ASCII characters")
        raise InvalidRequestError("the Idempotency-Key cannot be used", fields=(problem,))
    call = current_call()
    reply = _new_reply(app, call, key)
    earlier = call.use.replies.recall(reply.id, reply.request_sha256)
    if earlier is not None:
        return _replayed(earlier)
    with guarded(reply) as guard:
        response = next_middleware(app)
    _keep(call, guard, response)
    return response


def _new_reply(app: APIGatewayHttpResolver, call: Call, key: str) -> Reply:
    """Keys of different accounts and routes have nothing to do with each other."""
    event = app.current_event
    account_id = call.principal.account_id or call.principal.kind.value
    scope = f"{account_id}\n{event.http_method}\n{event.path}\n{key}"
    return call.use.replies.new(
        reply_id=f"{Reply.PREFIX}_{sha256(scope.encode()).hexdigest()}",
        account_id=account_id,
        # A body may hold a secret. Its digest alone could be tried against guesses by whoever
        # reads the table; the key, which is not stored, is in it, too.
        request_sha256=hmac.new(scope.encode(), (event.body or "").encode(), sha256).hexdigest(),
    )


def _keep(call: Call, guard: Guard, response: Response[Any]) -> None:
    if not guard.has_taken_effect:
        return
    headers = {k: str(v) for k, v in response.headers.items() if k in _KEPT_HEADERS}
    body = {k: None if k in SECRET_FIELDS else v for k, v in (response.body or {}).items()}
    try:
        call.use.replies.store_answer(guard.reply, response.status_code, body, headers)
    except PodferryError:
        # The effect stands and the caller gets its answer; only a repetition gets `reply_lost`.
        logger.warning("answer not kept", exc_info=True)


def _replayed(reply: Reply) -> Response[Any]:
    return Response(
        status_code=reply.status or 200,
        content_type="application/json",
        body=reply.body,
        headers={**reply.headers, "Idempotent-Replayed": "true"},
    )
