"""A workflow engine that carries out nothing: it records what it was told, for tests to ask."""

from dataclasses import dataclass
from itertools import count
from typing import Any

from podferry.ports.workflows import ExecutionStatus, Workflow


@dataclass(frozen=True, slots=True)
class Start:
    """An execution that was started."""

    workflow: Workflow
    name: str
    operation_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """How a waiting step was answered: with an output, or with an error and its cause."""

    output: dict[str, Any] | None = None
    error: str | None = None
    cause: str | None = None


class MemoryWorkflows:
    """A `Workflows`. A token counts once somebody waits for it: see `wait` and `wait_for`."""

    def __init__(self) -> None:
        self.starts: list[Start] = []
        self.answers: dict[str, Answer] = {}
        """By task token."""
        self.beats: list[str] = []
        """Task tokens, one entry for each beat that counted."""
        self._waiting: set[str] = set()
        self._ended: set[tuple[Workflow, str]] = set()
        self._serials = count(1)

    def start(self, workflow: Workflow, name: str, operation_id: str) -> None:
        if not self._exists(workflow, name):
            self.starts.append(Start(workflow, name, operation_id))

    def status(self, workflow: Workflow, name: str) -> ExecutionStatus:
        if not self._exists(workflow, name):
            return ExecutionStatus.MISSING
        has_ended = (workflow, name) in self._ended
        return ExecutionStatus.ENDED if has_ended else ExecutionStatus.RUNNING

    def _exists(self, workflow: Workflow, name: str) -> bool:
        return any((start.workflow, start.name) == (workflow, name) for start in self.starts)

    def succeed(self, task_token: str, output: dict[str, Any]) -> bool:
        return self._answer(task_token, Answer(output=output))

    def fail(self, task_token: str, error: str, cause: str) -> bool:
        return self._answer(task_token, Answer(error=error, cause=cause))

    def beat(self, task_token: str) -> bool:
        if task_token not in self._waiting:
            return False
        self.beats.append(task_token)
        return True

    def _answer(self, task_token: str, answer: Answer) -> bool:
        if task_token not in self._waiting:
            return False
        self._waiting.remove(task_token)
        self.answers[task_token] = answer
        return True

    def wait(self) -> str:
        """Let a step wait; returns its new task token."""
        task_token = f"token-{next(self._serials)}"
        self.wait_for(task_token)
        return task_token

    def wait_for(self, task_token: str) -> None:
        """Let a step wait with this task token."""
        self._waiting.add(task_token)

    def end(self, workflow: Workflow, name: str) -> None:
        """Let an execution end, whichever way."""
        self._ended.add((workflow, name))
