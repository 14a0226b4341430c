"""The bodies of Lambda's calls, and its way to say what is wrong with one."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from local.providers.web import Response, json_response

CAPACITY = "instance-operations/launch/insufficient-capacity"
MISSING = "global/object-does-not-exist"
INVALID = "global/invalid-parameters"
_LARGEST_USER_DATA = 1_000_000
_SUGGESTION = "Choose an instance type with more availability, or try again later."


class _Strict(BaseModel):
    """Whether Lambda takes unknown fields is not known: a slip in ours would go unseen."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Image(_Strict):
    id: str | None = None
    family: str | None = None


class _Tag(_Strict):
    key: Annotated[str, Field(min_length=1)]
    value: str


class LaunchInstance(_Strict):
    """The body of POST /instance-operations/launch."""

    region_name: str
    instance_type_name: str
    ssh_key_names: Annotated[list[str], Field(min_length=1, max_length=1)]
    name: Annotated[str, Field(max_length=64)] | None = None
    hostname: str | None = None
    image: _Image | None = None
    user_data: Annotated[str, Field(max_length=_LARGEST_USER_DATA)] | None = None
    file_system_names: Annotated[list[str], Field(max_length=0)] = []
    tags: list[_Tag] = []


class TerminateInstances(_Strict):
    """The body of POST /instance-operations/terminate."""

    instance_ids: Annotated[list[str], Field(min_length=1)]


class AddSshKey(_Strict):
    """The body of POST /ssh-keys; without a public key Lambda makes a pair."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    public_key: str | None = None


def refused(status: int, code: str, message: str) -> Response:
    """An error in Lambda's shape."""
    error = {"code": code, "message": message}
    if code == CAPACITY:
        error["suggestion"] = _SUGGESTION
    return json_response(status, {"error": error})


def data(value: Any) -> Response:
    """An answer in Lambda's envelope."""
    return json_response(200, {"data": value})


def invalid(error: ValidationError) -> Response:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"])) or "body"
    return refused(400, INVALID, f"Invalid request: {place}: {first['msg']}")
