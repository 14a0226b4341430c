"""Roles of the simulated AWS account: STS, as far as taking on a role goes.

There is a role for every external id, `podferry-for-<external id>`, and it trusts whoever says that
id. Who asks is not checked, as no signature is here.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from local.providers.web import Request, Response

TRUSTING = "podferry-for-"
_XML = "text/xml"


@dataclass(slots=True)
class Roles:
    """The sessions that were begun. They end with the process."""

    _tokens: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By access key id: the session's token and its end."""

    def take_on(self, request: Request, now: float) -> Response | None:
        """The answer to AssumeRole; None to anything else."""
        values = dict(parse_qsl(request.body.decode(errors="replace")))
        if values.get("Action") != "AssumeRole":
            return None
        role, said = values.get("RoleArn", ""), values.get("ExternalId", "")
        if not said or role.rpartition("/")[2] != TRUSTING + said:
            return _denied(role)
        key_id, token = f"ASIA{secrets.token_hex(8).upper()}", secrets.token_urlsafe(48)
        ends_at = now + float(values.get("DurationSeconds", 3600))
        self._tokens[key_id] = (token, ends_at)
        return _session(key_id, token, ends_at)

    def has(self, request: Request, key_id: str, now: float) -> bool:
        """Whether the request belongs to a session that has not ended."""
        token, ends_at = self._tokens.get(key_id, ("", 0.0))
        return (
            bool(token) and now < ends_at and request.headers.get("x-amz-security-token") == token
        )


def _session(key_id: str, token: str, ends_at: float) -> Response:
    ends = datetime.fromtimestamp(ends_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = (
        '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>'
        f"<Credentials><AccessKeyId>{key_id}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>"
        f"<SessionToken>{token}</SessionToken><Expiration>{ends}</Expiration></Credentials>"
        "</AssumeRoleResult></AssumeRoleResponse>"
    )
    return Response(200, body.encode(), _XML)


def _denied(role: str) -> Response:
    message = f"not authorized to perform: sts:AssumeRole on resource: {role}"
    body = (
        '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
        f"<Code>AccessDenied</Code><Message>{escape(message)}</Message></Error></ErrorResponse>"
    )
    return Response(403, body.encode(), _XML)
