"""Secrets of an account: what goes in, and the little that comes out."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from podferry.domain.secret import LONGEST, SHORTEST
from podferry.http.models.fields import NO_NUL, Input, Output
from podferry.services.secrets import SecretUse

NAME_PATTERN = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"

SecretName = Annotated[
    str, Field(pattern=NAME_PATTERN, description="Of a secret of the account (`/v1/secrets`).")
]
Text = Annotated[
    str,
    Field(
        min_length=SHORTEST,
        max_length=LONGEST,
        pattern=NO_NUL,
        description="Kept as it is, with every blank and line break. It is never shown again.",
        json_schema_extra={"writeOnly": True},
    ),
]


class NewSecretBody(Input):
    """A secret to keep."""

    name: SecretName
    value: Text


class SecretBody(Input):
    """The text of a secret."""

    value: Text


class SecretView(Output):
    """A secret, without its text."""

    name: str
    created_at: datetime
    rotated_at: datetime = Field(
        description="Since when it has its present text; pods get it with their next start."
    )
    used_by: tuple[str, ...] = Field(description="Pods whose environment names it.")

    @classmethod
    def of(cls, use: SecretUse) -> "SecretView":
        secret = use.secret
        return cls(
            name=secret.name,
            created_at=secret.created_at,
            rotated_at=secret.rotated_at,
            used_by=use.pod_ids,
        )
