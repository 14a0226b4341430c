"""The variables of a pod: plain ones, and such that name a secret of the account."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from podferry.http.models.fields import (
    NO_NUL,
    VARIABLE_LENGTH,
    VARIABLE_NAME,
    VARIABLES,
    VARIABLES_BYTES,
    Input,
    small_variables,
)
from podferry.http.models.secret import NAME_PATTERN, SecretName


class SecretRef(Input):
    """A secret of the account, by its name."""

    secret: SecretName


def shown(plain: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str | SecretRef]:
    """Both kinds together, as users write them."""
    return {**plain, **{name: SecretRef(secret=secret) for name, secret in secrets.items()}}


def _read(value: Any) -> str | SecretRef:
    """Before the union is tried, which would complain once for each of its members."""
    if isinstance(value, SecretRef):
        return value
    if isinstance(value, str):
        if len(value) > VARIABLE_LENGTH or "\x00" in value:
            raise ValueError(f"a text has at most {VARIABLE_LENGTH} characters, none of them NUL")
        return value
    name = value.get("secret") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(name, str) or re.fullmatch(NAME_PATTERN, name) is None:
        raise ValueError('give a text, or {"secret": "<name of a secret>"}')
    return SecretRef(secret=name)


def _small_enough(variables: dict[str, str | SecretRef]) -> dict[str, str | SecretRef]:
    texts = {n: v.secret if isinstance(v, SecretRef) else v for n, v in variables.items()}
    small_variables(texts)
    return variables


PodVariables = Annotated[
    dict[
        Annotated[str, Field(pattern=VARIABLE_NAME)],
        Annotated[str | SecretRef, BeforeValidator(_read)],
    ],
    Field(max_length=VARIABLES),
    AfterValidator(_small_enough),
    WithJsonSchema(
        {
            "type": "object",
            "description": f"At most {VARIABLES_BYTES} bytes in all.",
            "maxProperties": VARIABLES,
            "propertyNames": {"pattern": VARIABLE_NAME},
            "additionalProperties": {
                "anyOf": [
                    {"type": "string", "maxLength": VARIABLE_LENGTH, "pattern": NO_NUL},
                    {
                        "type": "object",
                        "properties": {"secret": {"type": "string", "pattern": NAME_PATTERN}},
                        "required": ["secret"],
                        "additionalProperties": False,
                    },
                ]
            },
        }
    ),
]
