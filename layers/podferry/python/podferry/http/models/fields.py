"""Types of fields with their limits: every text, list and number has one."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic import StrictBool as Flag
from pydantic import StrictInt as Integer

__all__ = [
    "Flag",
    "Input",
    "Integer",
    "Name",
    "Output",
    "Script",
    "Variables",
    "left_alone",
    "small_variables",
    "unique",
]

SCRIPT_BYTES = 64 * 1024
VARIABLES = 64
VARIABLE_LENGTH = 4096
VARIABLES_BYTES = 64 * 1024
"""All of them together: with two scripts they have to fit in one row of the table."""

_ONE_LINE = r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$"
NO_NUL = r"^[^\x00]*$"
VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"


class Input(BaseModel):
    """What a user sends. Unknown fields are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Output(BaseModel):
    """What a user gets."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _small_script(text: str) -> str:
    size = len(text.encode())
    if size > SCRIPT_BYTES:
        raise ValueError(f"{size} bytes; a script has at most {SCRIPT_BYTES}")
    return text


def small_variables(variables: dict[str, str]) -> dict[str, str]:
    """Refuse variables that are too many bytes together."""
    size = sum(len(name) + len(value.encode()) for name, value in variables.items())
    if size > VARIABLES_BYTES:
        raise ValueError(f"{size} bytes; all variables together have at most {VARIABLES_BYTES}")
    return variables


def unique(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse a list that names something twice."""
    if len(set(items)) != len(items):
        raise ValueError("something is named twice")
    return items


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def left_alone(default: Any = None) -> Any:
    """The default of a field of a PATCH: what is not sent stays as it is."""
    return Field(default=default, json_schema_extra=_without_default)


Name = Annotated[str, Field(min_length=1, max_length=64, pattern=_ONE_LINE)]
Script = Annotated[
    str, Field(max_length=SCRIPT_BYTES, pattern=NO_NUL), AfterValidator(_small_script)
]
Variables = Annotated[
    dict[
        Annotated[str, Field(pattern=VARIABLE_NAME)],
        Annotated[str, Field(max_length=VARIABLE_LENGTH, pattern=NO_NUL)],
    ],
    Field(max_length=VARIABLES),
    AfterValidator(small_variables),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": VARIABLES,
            "propertyNames": {"pattern": VARIABLE_NAME},
            "additionalProperties": {
                "type": "string",
                "maxLength": VARIABLE_LENGTH,
                "pattern": NO_NUL,
            },
        }
    ),
]
