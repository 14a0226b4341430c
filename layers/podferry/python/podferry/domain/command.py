"""Commands to a machine's agent: written once, delivered with heartbeats until answered.

pending ─> running ─> succeeded | failed
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from podferry.domain.entity import Entity


class CommandKind(StrEnum):
    QUIESCE = "quiesce"
    RESUME = "resume"
    CAPTURE = "capture"
    RESTORE = "restore"
    RUN = "run"
    EXEC = "exec"
    SHUTDOWN = "shutdown"
    CANCEL = "cancel"


class CommandState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


ENDED = frozenset({CommandState.SUCCEEDED, CommandState.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a command is. Totals and the ETA are `None` while they are unknown."""

    phase: str
    bytes_done: int = 0
    bytes_total: int | None = None
    files_done: int = 0
    files_total: int | None = None
    eta_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Entity):
    """One thing that one machine is told to do, once.

    A workflow step names its command after the operation, the step and the try, so that a step
    that runs twice finds the command of its first run and only hangs its new task token on it.
    """

    PREFIX: ClassVar[str] = "cmd"

    machine_id: str
    pod_id: str
    kind: CommandKind
    arguments: dict[str, Any]
    timeout_seconds: int
    operation_id: str | None = None
    step: str | None = None
    state: CommandState = CommandState.PENDING
    task_token: str | None = None
    progress: Progress | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    ended_at: datetime | None = None
    expires_at: datetime | None = None

    @property
    def owner(self) -> str:
        """Open commands are listed under their machine; a machine's list stays short."""
        return self.machine_id if self.state not in ENDED else f"{self.machine_id}#ended"

    @property
    def forget_at(self) -> datetime | None:
        return self.expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk(Entity):
    """A piece of what an exec wrote; `id` is the command's id and an eight-digit sequence."""

    PREFIX: ClassVar[str] = "out"

    command_id: str
    sequence: int
    stream: str
    data: str
    """Base64."""
    expires_at: datetime | None = None

    @property
    def owner(self) -> str:
        return self.command_id

    @property
    def forget_at(self) -> datetime | None:
        return self.expires_at
