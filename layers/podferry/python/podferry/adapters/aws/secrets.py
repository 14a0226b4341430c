"""Secrets of the deployment, kept for a minute: busy functions ask seldom, new values count soon.

The operator's key is `{"prefix": "pf_admin", "key": "<made at deployment>"}`; its token is the two,
joined by an underscore. No message ever shows a secret's content.
"""

from __future__ import annotations

import hmac
import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from podferry.adapters.aws.errors import aws_errors
from podferry.domain.errors import InternalError
from podferry.ports.surroundings import Clock

if TYPE_CHECKING:
    from podferry.adapters.aws.clients import AwsClients

KEPT_FOR = timedelta(minutes=1)


class KeptSecret:
    """The text of one secret."""

    def __init__(self, clients: AwsClients, arn: str, clock: Clock) -> None:
        self.arn = arn
        self._clients = clients
        self._clock = clock
        self._kept: tuple[datetime, str] | None = None

    def text(self) -> str:
        """The secret as it is now, or was within the last minute.

        Raises:
            InternalError: AWS does not give it.
        """
        now = self._clock.now()
        if self._kept is None or now - self._kept[0] >= KEPT_FOR:
            with aws_errors(f"read the secret {self.arn}"):
                answer = self._clients.secretsmanager.get_secret_value(SecretId=self.arn)
            self._kept = (now, answer.get("SecretString", ""))
        return self._kept[1]


class SecretsOperatorKey:
    """An `OperatorKey` kept in Secrets Manager."""

    def __init__(self, clients: AwsClients, arn: str, clock: Clock) -> None:
        self._secret = KeptSecret(clients, arn, clock)

    def matches(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(errors="replace"), self._token().encode())

    def _token(self) -> str:
        try:
            value = json.loads(self._secret.text())
        except json.JSONDecodeError:
            value = None
        match value:
            case {"prefix": "pf_admin", "key": str(key)} if key:
                return f"pf_admin_{key}"
        # Raised out here, because the decoder's error carries the text and would be its context.
        raise InternalError(
            f'the secret {self._secret.arn} has not the form {{"prefix": "pf_admin", "key": "..."}}'
            "; put a value of that form"
        )
