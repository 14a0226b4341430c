"""Secrets of accounts. A function of its own: it alone writes them, and cannot read them."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path

from podferry.domain.account import Scope
from podferry.http.answers import GONE, REPLAYED, found, gone, made
from podferry.http.call import CallNow
from podferry.http.models.page import PageView
from podferry.http.models.secret import NAME_PATTERN, NewSecretBody, SecretBody, SecretView
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("accounts")

SecretInPath = Annotated[str, Path(pattern=NAME_PATTERN, description="The secret's name.")]


@routes.operation(
    "POST",
    "/v1/secrets",
    needs=Scope.ACCOUNT_WRITE,
    answers={201: Answer(SecretView, "The secret, without its text.", REPLAYED)},
)
def add_secret(call: CallNow, body: NewSecretBody) -> Response[SecretView]:
    """Keep a secret that pods can name in their environment as `{"secret": "<name>"}`."""
    return made(SecretView.of(call.use.secrets.add(call.account_id, body.name, body.value)))


@routes.operation(
    "PUT",
    "/v1/secrets/<name>",
    needs=Scope.ACCOUNT_WRITE,
    answers={200: Answer(SecretView, "The secret, without its text.")},
    refusals=(409,),
)
def put_secret(call: CallNow, name: SecretInPath, body: SecretBody) -> Response[SecretView]:
    """Give a secret another text, or keep a new one; pods get it with their next start."""
    return found(SecretView.of(call.use.secrets.put(call.account_id, name, body.value)))


@routes.operation(
    "GET",
    "/v1/secrets",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(PageView[SecretView], "The account's secrets, by name.")},
)
def list_secrets(call: CallNow) -> Response[PageView[SecretView]]:
    """List the account's secrets, without their texts."""
    rows = tuple(SecretView.of(use) for use in call.use.secrets.all_of(call.account_id))
    return found(PageView[SecretView](data=rows, next_cursor=None))


@routes.operation(
    "GET",
    "/v1/secrets/<name>",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(SecretView, "The secret, without its text.")},
)
def get_secret(call: CallNow, name: SecretInPath) -> Response[SecretView]:
    """See which pods name a secret, and since when it has its present text."""
    return found(SecretView.of(call.use.secrets.get(call.account_id, name)))


@routes.operation(
    "DELETE",
    "/v1/secrets/<name>",
    needs=Scope.ACCOUNT_WRITE,
    answers=GONE,
    refusals=(409,),
)
def delete_secret(call: CallNow, name: SecretInPath) -> Response[None]:
    """Delete a secret; refused, with their ids, while pods name it."""
    call.use.secrets.delete(call.account_id, name)
    return gone()
