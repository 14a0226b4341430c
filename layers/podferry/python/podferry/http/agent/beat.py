"""Heartbeats: health and reports of commands up, commands down."""

from typing import Annotated, Any, Literal

from pydantic import Field

from podferry.domain.activity import Signal
from podferry.domain.command import Command, CommandKind, CommandState, Progress
from podferry.http.agent.activity import ActivityBody
from podferry.http.agent.fields import AgentInput, Count, Free, Measure, Text
from podferry.http.models.fields import Flag, Integer, Output
from podferry.services.agent.heartbeat import Beat, BeatReply, CommandReport
from podferry.services.saves.begin import Turn

Temperature = Annotated[float, Field(strict=True, gt=-1e6, lt=1e6)]


class Workload(AgentInput):
    """How the user's program is doing."""

    state: Literal["none", "starting", "running", "serving", "exited", "stopped"]
    exit_code: Integer | None = None
    detail: Text | None = None


class GpuMetrics(AgentInput):
    """One GPU."""

    index: Count
    utilization_percent: Measure | None = None
    memory_used_mib: Measure | None = None
    temperature_c: Temperature | None = None


class Metrics(AgentInput):
    """What the agent measured; `null` is what its box does not tell."""

    cpu_percent: Measure | None = None
    memory_used_bytes: Count | None = None
    memory_total_bytes: Count | None = None
    disk_used_bytes: Count | None = None
    disk_total_bytes: Count | None = None
    net_rx_bytes: Count | None = None
    net_tx_bytes: Count | None = None
    gpus: Annotated[tuple[GpuMetrics, ...], Field(max_length=64)] | None = None


class ProgressBody(AgentInput):
    """How far a command is."""

    phase: Text
    bytes_done: Count = 0
    bytes_total: Count | None = None
    files_done: Count = 0
    files_total: Count | None = None
    eta_seconds: Measure | None = None

    def to_progress(self) -> Progress:
        return Progress(**dict(self))


class ErrorBody(AgentInput):
    """Why a command failed."""

    code: Text
    detail: Text
    retryable: Flag = False


class ReportBody(AgentInput):
    """What the agent says of one command."""

    id: Annotated[str, Field(min_length=1, max_length=128)]
    state: Literal["running", "succeeded", "failed"]
    progress: ProgressBody | None = None
    result: Free | None = None
    error: ErrorBody | None = None

    def to_report(self) -> CommandReport:
        return CommandReport(
            id=self.id,
            state=CommandState(self.state),
            progress=None if self.progress is None else self.progress.to_progress(),
            result=self.result,
            error=None if self.error is None else self.error.model_dump(),
        )


class HeartbeatBody(AgentInput):
    """One heartbeat."""

    sequence: Count
    boot_id: Annotated[str, Field(max_length=128)]
    workload: Workload
    metrics: Metrics
    activity: ActivityBody | None = None
    commands: Annotated[tuple[ReportBody, ...], Field(max_length=100)] = ()

    def to_beat(self) -> Beat:
        return Beat(
            boot_id=self.boot_id,
            workload=self.workload.model_dump(mode="json"),
            metrics=self.metrics.model_dump(mode="json"),
            activity=None if self.activity is None else self.activity.to_activity(),
            reports=tuple(report.to_report() for report in self.commands),
        )


class CommandOut(Output):
    """One thing to do; the same id is one thing, however often it comes."""

    id: str
    kind: CommandKind
    args: dict[str, Any]
    timeout_seconds: int

    @classmethod
    def of(cls, command: Command) -> "CommandOut":
        return cls(
            id=command.id,
            kind=command.kind,
            args=command.arguments,
            timeout_seconds=command.timeout_seconds,
        )


class HeartbeatReply(Output):
    """When to beat next, what to do, what to forget."""

    heartbeat_seconds: float
    commands: tuple[CommandOut, ...]
    forget: tuple[str, ...]
    save_interval_seconds: int | None
    idle_signals: tuple[Signal, ...] | None

    @classmethod
    def of(cls, reply: BeatReply) -> "HeartbeatReply":
        return cls(
            heartbeat_seconds=reply.heartbeat_seconds,
            commands=tuple(CommandOut.of(command) for command in reply.commands),
            forget=reply.forget,
            save_interval_seconds=reply.save_interval_seconds,
            idle_signals=reply.idle_signals,
        )


class SaveBody(AgentInput):
    """An agent whose timer says that a save is due."""


class SaveReply(Output):
    """The save to make; without one, when to ask again."""

    command: CommandOut | None
    in_seconds: float

    @classmethod
    def of(cls, turn: Turn) -> "SaveReply":
        command = None if turn.command is None else CommandOut.of(turn.command)
        return cls(command=command, in_seconds=turn.in_seconds)
