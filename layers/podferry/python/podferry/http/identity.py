"""How the authorizer tells the other functions who asks.

An HTTP API cannot shape an authorizer's refusal, so the authorizer lets every request pass and
says what it found; the functions refuse with a problem of their own.
"""

import json
from enum import StrEnum
from typing import Any

from podferry.domain.account import Scope
from podferry.domain.errors import TokenInvalidError
from podferry.domain.principal import Principal, PrincipalKind
from podferry.services.identify import Identify

TOKEN_LENGTH = 256


class TokenState(StrEnum):
    VALID = "valid"
    MISSING = "missing"
    INVALID = "invalid"


def authorize(event: dict[str, Any], identify: Identify) -> dict[str, Any]:
    """The authorizer's answer (simple response of payload format 2.0)."""
    token = _bearer(event)
    if token is None:
        return _pass(TokenState.MISSING, "")
    try:
        principal = identify.who(token)
    except TokenInvalidError as error:
        return _pass(TokenState.INVALID, error.detail)
    return _pass(TokenState.VALID, to_json(principal))


def principal_of(event: dict[str, Any]) -> Principal:
    """Who asks, as the authorizer found out.

    Raises:
        TokenInvalidError: there is no good token.
    """
    context = event.get("requestContext", {}).get("authorizer", {}).get("lambda", {})
    state, text = context.get("token_state"), context.get("principal") or ""
    if state == TokenState.VALID:
        return from_json(text)
    if state == TokenState.INVALID and text:
        raise TokenInvalidError(text)
    raise TokenInvalidError("send a token: Authorization: Bearer <token>")


def to_json(principal: Principal) -> str:
    return json.dumps(
        {
            "kind": principal.kind,
            "account_id": principal.account_id,
            "scopes": sorted(principal.scopes),
            "key_id": principal.key_id,
            "machine_id": principal.machine_id,
        }
    )


def from_json(text: str) -> Principal:
    value = json.loads(text)
    return Principal(
        kind=PrincipalKind(value["kind"]),
        account_id=value["account_id"],
        scopes=frozenset(Scope(scope) for scope in value["scopes"]),
        key_id=value["key_id"],
        machine_id=value["machine_id"],
    )


def _bearer(event: dict[str, Any]) -> str | None:
    headers = event.get("headers") or {}
    text = next((v for k, v in headers.items() if k.lower() == "authorization"), "")
    scheme, _, token = text.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > TOKEN_LENGTH:
        return None
    return token if token.isascii() and token.isprintable() else None


def _pass(state: TokenState, principal: str) -> dict[str, Any]:
    return {"isAuthorized": True, "context": {"token_state": state.value, "principal": principal}}
