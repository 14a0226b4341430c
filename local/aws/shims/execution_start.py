"""Starting an execution again under its name is no error while it runs.

On AWS, StartExecution with the name and the input of a *running* execution answers with that
execution; only another input or an ended execution is `ExecutionAlreadyExists`. MiniStack always
refuses.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

import json
from typing import Any

from ministack.core.responses import json_response
from ministack.services import stepfunctions

from local.aws.shims import guard


def apply() -> None:
    """Makes StartExecution idempotent as on AWS."""
    original = guard.take(stepfunctions, "_start_execution")
    guard.take(stepfunctions, "_executions")

    def start(request: dict[str, Any]) -> Any:
        answer = original(request)
        if answer[0] != 400:
            return answer
        running = _same_running(request)
        if running is None:
            return answer
        return json_response(
            {"executionArn": running["executionArn"], "startDate": running["startDate"]}
        )

    guard.replace(stepfunctions, "_start_execution", start)


def _same_running(request: dict[str, Any]) -> dict[str, Any] | None:
    for execution in list(stepfunctions._executions.values()):
        if (
            execution["name"] == request.get("name")
            and execution["stateMachineArn"] == request.get("stateMachineArn")
            and execution["status"] == "RUNNING"
            and json.loads(execution["input"]) == json.loads(request.get("input", "{}"))
        ):
            return dict(execution)
    return None
