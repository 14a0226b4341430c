"""Commands in a pod and their output."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from podferry.domain.command import Command, CommandState, OutputChunk
from podferry.http.models.fields import NO_NUL, Input, Integer, Output, Script, Variables
from podferry.http.models.operation import ErrorView
from podferry.services.run_command import ExecRequest

STDIN_LENGTH = 128 * 1024


def _small_argv(argv: tuple[str, ...]) -> tuple[str, ...]:
    size = sum(len(argument.encode()) for argument in argv)
    if size > STDIN_LENGTH:
        raise ValueError(f"{size} bytes; all arguments together have at most {STDIN_LENGTH}")
    return argv


Argument = Annotated[str, Field(max_length=4096, pattern=NO_NUL)]
Argv = Annotated[
    tuple[Argument, ...], Field(min_length=1, max_length=64), AfterValidator(_small_argv)
]
Base64 = Annotated[
    str,
    Field(
        max_length=STDIN_LENGTH,
        pattern="^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    ),
]
_NULL: JsonValue = {"type": "null"}
_ONE_OF: list[JsonValue] = [
    {"required": ["argv"], "properties": {"argv": {"type": "array"}, "script": _NULL}},
    {"required": ["script"], "properties": {"script": {"type": "string"}, "argv": _NULL}},
]


class ExecBody(Input):
    """A command: `argv`, or a `script` for /bin/sh; exactly one of them."""

    model_config = ConfigDict(json_schema_extra={"oneOf": _ONE_OF})

    argv: Argv | None = None
    script: Script | None = None
    stdin: Base64 | None = Field(default=None, description="Base64.")
    timeout_seconds: Annotated[Integer, Field(ge=1, le=3600)] = 60
    working_dir: Annotated[str, Field(max_length=1024, pattern=r"^/[^\x00]*$")] | None = None
    environment: Variables = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.argv is None) == (self.script is None):
            raise ValueError("Give exactly one of argv and script")
        return self

    def to_request(self) -> ExecRequest:
        return ExecRequest(**dict(self))


class OutputView(Output):
    """A piece of what a command wrote."""

    sequence: int
    stream: Literal["stdout", "stderr"]
    data: str = Field(description="Base64.")


class CommandView(Output):
    """A command and what it wrote so far."""

    id: str
    pod_id: str
    state: CommandState
    exit_code: int | None
    timed_out: bool
    truncated: bool = Field(description="Whether output beyond the limit was thrown away.")
    error: ErrorView | None = Field(description="Why the command could not be run.")
    created_at: datetime
    ended_at: datetime | None
    output: tuple[OutputView, ...] = Field(description="In order, from `after` on.")
    next_after: int = Field(description="Give it as `after` to get what comes next.")
    has_more: bool = Field(description="Whether more output is there already.")

    @classmethod
    def of(
        cls, command: Command, chunks: Sequence[OutputChunk], after: int, *, has_more: bool
    ) -> "CommandView":
        result = command.result or {}
        return cls(
            id=command.id,
            pod_id=command.pod_id,
            state=command.state,
            exit_code=result.get("exit_code"),
            timed_out=bool(result.get("timed_out", False)),
            truncated=bool(result.get("truncated", False)),
            error=ErrorView.of(command.error),
            created_at=command.created_at,
            ended_at=command.ended_at,
            output=tuple(_output(chunk) for chunk in chunks),
            next_after=max([after, *(chunk.sequence for chunk in chunks)]),
            has_more=has_more,
        )


def _output(chunk: OutputChunk) -> OutputView:
    stream: Literal["stdout", "stderr"] = "stderr" if chunk.stream == "stderr" else "stdout"
    return OutputView(sequence=chunk.sequence, stream=stream, data=chunk.data)
