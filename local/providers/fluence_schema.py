"""The bodies of Fluence's launches, and FastAPI's way to say what is wrong with one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from local.providers.web import Response, json_response

Name = Annotated[
    str, Field(min_length=1, max_length=25, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
]


class Expose(BaseModel):
    """One port that is reachable from outside. Ports are strings."""

    port: str
    protocol: Literal["tcp", "udp", "http"]

    @model_validator(mode="after")
    def _check_port(self) -> Expose:
        if not (self.port.isdecimal() and 1 <= int(self.port) <= 65535):
            raise ValueError("port out of range")
        if self.protocol == "http" and self.port != "80":
            raise ValueError("protocol http is allowed for port 80 only")
        return self


class EnvironmentVariable(BaseModel):
    """One variable of the container."""

    name: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]
    value: str


class Credentials(BaseModel):
    """How to pull a private image."""

    host: Literal["docker.io", "ghcr.io"]
    username: str
    password: str


class ContainerSettings(BaseModel):
    """What runs in the container."""

    image: Annotated[str, Field(min_length=1, max_length=255)]
    expose: Annotated[list[Expose], Field(min_length=1, max_length=10)]
    environment: Annotated[list[EnvironmentVariable], Field(max_length=64)] = []
    startup_command: Annotated[str, Field(max_length=2048)] | None = None
    credentials: Credentials | None = None

    @field_validator("image")
    @classmethod
    def _check_image(cls, image: str) -> str:
        if image != image.lower():
            raise ValueError("image must be lower case")
        return image


class Constraints(BaseModel):
    """Where the container may be placed."""

    location: str | None = None


class Launch(BaseModel):
    """The body of POST /gpu/instances/."""

    plan_id: str
    name: Name
    container_settings: ContainerSettings
    constraints: Constraints | None = None
    ssh_key: str | None = None


class LaunchMachine(BaseModel):
    """The body of POST /gpu/instances/vms and /gpu/instances/baremetal."""

    plan_id: str
    name: Name
    ssh_key: Annotated[str, Field(min_length=1)]
    os_image: str


def validation_response(error: ValidationError) -> Response:
    """Answer 422 in FastAPI's shape."""
    details: list[dict[str, Any]] = []
    for item in error.errors(include_url=False):
        detail: dict[str, Any] = {**item, "loc": ["body", *item["loc"]]}
        if "ctx" in detail:
            # FastAPI cannot encode an exception and sends an empty object in its place.
            context = detail["ctx"].items()
            detail["ctx"] = {k: {} if isinstance(v, Exception) else v for k, v in context}
        details.append(detail)
    return json_response(422, {"detail": details})


def broken_json_response(reason: str) -> Response:
    detail = {
        "type": "json_invalid",
        "loc": ["body", 0],
        "msg": "JSON decode error",
        "input": {},
        "ctx": {"error": reason},
    }
    return json_response(422, {"detail": [detail]})
