"""The `Workflows` port over the interpreter of `asl.py`."""

import json
from typing import Any

from asl import Engine, StateError

from podferry.ports.workflows import ExecutionStatus, Workflow


class EngineWorkflows:
    """The `Workflows` port over the interpreter."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def start(self, workflow: Workflow, name: str, operation_id: str) -> None:
        self._engine.start(workflow, name, {"operation_id": operation_id})

    def status(self, workflow: Workflow, name: str) -> ExecutionStatus:
        execution = self._engine.executions.get(name)
        if execution is None:
            return ExecutionStatus.MISSING
        is_running = execution.status == "RUNNING"
        return ExecutionStatus.RUNNING if is_running else ExecutionStatus.ENDED

    def succeed(self, task_token: str, output: dict[str, Any]) -> bool:
        wait = self._engine.waiting(task_token)
        if wait is None:
            return False
        wait.answer = json.loads(json.dumps(output))
        return True

    def fail(self, task_token: str, error: str, cause: str) -> bool:
        wait = self._engine.waiting(task_token)
        if wait is None:
            return False
        wait.error = StateError(error, cause)
        return True

    def beat(self, task_token: str) -> bool:
        wait = self._engine.waiting(task_token)
        if wait is None:
            return False
        wait.beat_at = self._engine.now()
        return True
