"""The engine that runs operations step by step."""

from enum import StrEnum
from typing import Any, Protocol


class Workflow(StrEnum):
    """The workflow files in `infra/workflows/`."""

    LAUNCH = "launch"
    STOP = "stop"
    MOVE = "move"
    PROOF = "proof"
    SHARE = "share"


class ExecutionStatus(StrEnum):
    """What became of an execution."""

    MISSING = "missing"
    RUNNING = "running"
    ENDED = "ended"


class Workflows(Protocol):
    """Executions are named after operations, tokens belong to waiting steps."""

    def start(self, workflow: Workflow, name: str, operation_id: str) -> None:
        """Start an execution; if one of that name exists already, that is success."""

    def status(self, workflow: Workflow, name: str) -> ExecutionStatus:
        """What became of the execution of this name. May lag a moment behind `start`."""

    def succeed(self, task_token: str, output: dict[str, Any]) -> bool:
        """Answer a waiting step; `False` if nobody waits for this token any more."""

    def fail(self, task_token: str, error: str, cause: str) -> bool:
        """Fail a waiting step with an error name of `domain/errors.py`; `False` as above."""

    def beat(self, task_token: str) -> bool:
        """Keep a waiting step's heartbeat alive; `False` as above."""
