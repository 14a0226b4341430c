"""Operations as executions of Step Functions state machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from podferry.adapters.aws.errors import aws_errors, code_of
from podferry.ports.workflows import ExecutionStatus, Workflow

if TYPE_CHECKING:
    from podferry.adapters.aws.clients import AwsClients

_NOBODY_WAITS = {"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"}
_ERROR_LENGTH = 256
_CAUSE_LENGTH = 32_768


class StepFunctionsWorkflows:
    """A `Workflows` over one state machine per workflow file."""

    def __init__(self, clients: AwsClients, arns: Mapping[Workflow, str]) -> None:
        self._clients = clients
        self._arns = arns

    def start(self, workflow: Workflow, name: str, operation_id: str) -> None:
        with aws_errors(f"start {workflow} as {name}"):
            try:
                self._clients.stepfunctions.start_execution(
                    stateMachineArn=self._arns[workflow],
                    name=name,
                    input=json.dumps({"operation_id": operation_id}),
                )
            except ClientError as error:
                if code_of(error) != "ExecutionAlreadyExists":
                    raise

    def status(self, workflow: Workflow, name: str) -> ExecutionStatus:
        with aws_errors(f"look up {name}"):
            try:
                execution = self._clients.stepfunctions.describe_execution(
                    executionArn=_execution_arn(self._arns[workflow], name)
                )
            except ClientError as error:
                if code_of(error) == "ExecutionDoesNotExist":
                    return ExecutionStatus.MISSING
                raise
        if execution["status"] in {"RUNNING", "PENDING_REDRIVE"}:
            return ExecutionStatus.RUNNING
        return ExecutionStatus.ENDED

    def succeed(self, task_token: str, output: dict[str, Any]) -> bool:
        return _answer(
            lambda: self._clients.stepfunctions.send_task_success(
                taskToken=task_token, output=json.dumps(output)
            )
        )

    def fail(self, task_token: str, error: str, cause: str) -> bool:
        return _answer(
            lambda: self._clients.stepfunctions.send_task_failure(
                taskToken=task_token, error=error[:_ERROR_LENGTH], cause=cause[:_CAUSE_LENGTH]
            )
        )

    def beat(self, task_token: str) -> bool:
        return _answer(
            lambda: self._clients.stepfunctions.send_task_heartbeat(taskToken=task_token)
        )


def _answer(send: Callable[[], object]) -> bool:
    with aws_errors("answer a waiting step"):
        try:
            send()
        except ClientError as error:
            if code_of(error) in _NOBODY_WAITS:
                return False
            raise
    return True


def _execution_arn(state_machine_arn: str, name: str) -> str:
    """Executions of `<...>:stateMachine:<machine>` are `<...>:execution:<machine>:<name>`."""
    head, _, machine = state_machine_arn.rpartition(":stateMachine:")
    return f"{head}:execution:{machine}:{name}"
