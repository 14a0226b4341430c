"""The body of RunPod's create call, and its way to say what is wrong with one."""

from __future__ import annotations

import json
import shlex
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from local.providers.web import Response

LARGEST_BODY = 102_400
_Version = Annotated[str, Field(pattern=r"^\d+\.\d+$")]
_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
}


class _Strict(BaseModel):
    """RunPod refuses fields that it does not know."""

    model_config = ConfigDict(
        extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=False
    )


class GpuRequest(_Strict):
    """Which GPUs, and what else the host must have."""

    id: str
    count: Annotated[int, Field(ge=1)] = 1
    allowed_cuda_versions: list[_Version] = []
    min_cuda_version: _Version | None = None
    min_ram_per_gpu: Annotated[int, Field(ge=1)] = 1
    min_vcpu_count_per_gpu: Annotated[int, Field(ge=1)] = 1


class _PersistentMount(_Strict):
    size: Annotated[int, Field(ge=10)]
    path: str


class _NetworkMount(_Strict):
    volume_id: str
    path: str


class _Mounts(_Strict):
    persistent: _PersistentMount | None = None
    network: Annotated[list[_NetworkMount], Field(max_length=1)] | None = None


class CreatePod(_Strict):
    """The body of POST /v2/pods."""

    name: Annotated[str, Field(min_length=1)]
    image: str | None = None
    gpu: GpuRequest | None = None
    cpu: dict[str, Any] | None = None
    cloud: Literal["SECURE", "COMMUNITY"] = "SECURE"
    data_center_ids: list[str] = []
    disk: Annotated[int, Field(ge=1)] = 20
    mounts: _Mounts = Field(default_factory=_Mounts)
    ports: list[str] = []
    env: dict[str, str] = {}
    registry: str | None = None
    args: str = ""
    entrypoint: list[str] = []
    cmd: list[str] = []
    start_ssh: bool = False
    start_jupyter: bool = False
    global_networking: bool = False
    template_id: str | None = None

    def broken_rule(self) -> str | None:
        """A rule between fields that the body breaks, in words; it is answered with a 400."""
        gpu = self.gpu
        rules = (
            ((gpu is None) != (self.cpu is None), "exactly one of gpu or cpu must be set"),
            (self.image is not None, "image is required unless templateId is set"),
            (
                not (self.mounts.persistent and self.mounts.network),
                "mounts.persistent and mounts.network are mutually exclusive",
            ),
            (
                not (gpu and gpu.allowed_cuda_versions and gpu.min_cuda_version),
                "allowedCudaVersions and minCudaVersion are mutually exclusive",
            ),
            (all(map(_is_port, self.ports)), "ports must be like 22/tcp or 8888/http"),
            (
                not self.args or not (self.entrypoint or self.cmd) or self.args == self.stored_args,
                "args and entrypoint or cmd describe different commands",
            ),
        )
        return next((problem for is_met, problem in rules if not is_met), None)

    @property
    def stored_args(self) -> str:
        """The command as RunPod keeps it."""
        if not (self.entrypoint or self.cmd):
            return self.args
        parts = {"entrypoint": self.entrypoint, "cmd": self.cmd}
        return json.dumps({name: words for name, words in parts.items() if words})

    @property
    def argv(self) -> list[str]:
        """What the container runs; without a command the image's own, and ours waits."""
        return [*self.entrypoint, *self.cmd] or shlex.split(self.args) or ["sleep", "infinity"]


def _is_port(text: str) -> bool:
    number, _, protocol = text.partition("/")
    return number.isdecimal() and 1 <= int(number) <= 65535 and protocol in {"tcp", "http"}


def problem(status: int, detail: str, errors: list[str] | None = None) -> Response:
    """An error in RunPod's shape."""
    body = {"title": _TITLES[status], "status": status, "detail": detail, "errors": errors or []}
    return Response(status, json.dumps(body).encode(), "application/problem+json")


def validation_problem(error: ValidationError) -> Response:
    """Every violation by its place, and an unknown field by its name."""
    return problem(422, "Request validation failed.", [_violation(each) for each in error.errors()])


def _violation(error: Any) -> str:
    places = [str(part) for part in error["loc"]]
    if error["type"] == "extra_forbidden":
        return f"{_path(places[:-1])}: additional properties '{places[-1]}' not allowed"
    return f"{_path(places)}: {error['msg']}"


def _path(places: list[str]) -> str:
    return ".".join(["$", *places])
