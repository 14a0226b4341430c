"""State machines: what the product's workflows rely on, and where the emulator alone differs."""

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from local.aws.deploy import Outputs

from .conftest import EmbeddedAWS, Function, eventually


@dataclass
class Workflow:
    """Starts executions and answers their tokens from inside a function."""

    arn: str
    table: str
    probe: Function
    server: EmbeddedAWS

    def start(self, kind: str, **data: Any) -> str:
        name = f"op-{uuid.uuid4().hex}"
        self.start_named(name, kind, **data)
        return name

    def start_named(self, name: str, kind: str, **data: Any) -> Any:
        document = json.dumps({"kind": kind, **data})
        return self.probe.aws(
            "stepfunctions", "start_execution", stateMachineArn=self.arn, name=name, input=document
        )

    def describe(self, name: str) -> Any:
        arn = f"{self.arn.replace(':stateMachine:', ':execution:')}:{name}"
        return self.probe.aws("stepfunctions", "describe_execution", executionArn=arn)

    def end(self, name: str, seconds: float = 15) -> Any:
        def ended() -> Any:
            found = self.describe(name)
            return found if found["status"] != "RUNNING" else None

        return eventually(ended, seconds)

    def result(self, name: str, seconds: float = 15) -> Any:
        found = self.end(name, seconds)
        assert found["status"] == "SUCCEEDED", found
        return json.loads(found["output"])

    def token(self, key: str, other_than: str = "") -> str:
        def handed_over() -> str | None:
            row = self.probe.aws(
                "dynamodb",
                "get_item",
                TableName=self.table,
                Key={"pk": {"S": key}, "sk": {"S": "token"}},
            ).get("Item")
            token = row["token"]["S"] if row else None
            return token if token != other_than else None

        return str(eventually(handed_over))

    def succeed(self, token: str, answer: Any) -> Any:
        output = json.dumps(answer)
        return self.probe.aws("stepfunctions", "send_task_success", taskToken=token, output=output)

    def fail(self, token: str, error: str) -> Any:
        return self.probe.aws(
            "stepfunctions", "send_task_failure", taskToken=token, error=error, cause="told so"
        )

    def beat(self, token: str) -> Any:
        return self.probe.aws("stepfunctions", "send_task_heartbeat", taskToken=token)


@pytest.fixture(scope="session")
def workflow(server: EmbeddedAWS, outputs: Outputs, probe: Function) -> Workflow:
    return Workflow(outputs["TinyFlow"]["FlowArn"], outputs["TinyData"]["TableName"], probe, server)


def test_step_gets_its_input_and_the_executions_name(workflow: Workflow) -> None:
    name = workflow.start("echo", value={"n": 1})

    assert workflow.result(name)["echo"]["payload"] == {"got": {"n": 1}, "execution": name}


def test_choice_without_a_match_takes_the_default(workflow: Workflow) -> None:
    found = workflow.end(workflow.start("nonsense"))

    assert (found["status"], found["error"]) == ("FAILED", "UnknownKind")


def test_running_execution_answers_a_second_start_with_the_same_input(workflow: Workflow) -> None:
    name = workflow.start("token")
    again = workflow.start_named(name, "token")

    assert again["executionArn"].endswith(name)
    workflow.succeed(workflow.token(name), {})


def test_second_start_with_another_input_is_refused(workflow: Workflow) -> None:
    name = workflow.start("token")

    assert workflow.start_named(name, "echo", value=1)["error"] == "ExecutionAlreadyExists"
    workflow.succeed(workflow.token(name), {})


def test_name_of_an_ended_execution_is_refused(workflow: Workflow) -> None:
    name = workflow.start("echo", value=1)
    workflow.result(name)

    assert workflow.start_named(name, "echo", value=1)["error"] == "ExecutionAlreadyExists"


def test_unknown_execution_is_a_clear_error(workflow: Workflow) -> None:
    assert workflow.describe("op-never-started")["error"] == "ExecutionDoesNotExist"


def test_error_is_retried_and_caught_by_its_class_name(workflow: Workflow) -> None:
    name = workflow.start("retry")
    error = workflow.result(name)["error"]

    history = workflow.server.client("stepfunctions").get_execution_history(
        executionArn=workflow.describe(name)["executionArn"], maxResults=100
    )["events"]
    tries = [event for event in history if event["type"] == "TaskFailed"]

    assert error["Error"] == "CaptureFailedError"
    assert json.loads(error["Cause"])["errorMessage"] == "no disk"
    assert len(tries) == 2


def test_task_that_takes_too_long_times_out(workflow: Workflow) -> None:
    started = time.monotonic()

    assert workflow.result(workflow.start("slow", seconds=5))["error"]["Error"] == "States.Timeout"
    assert time.monotonic() - started < 4


def test_wait_takes_its_seconds_from_the_input(workflow: Workflow) -> None:
    started = time.monotonic()
    workflow.result(workflow.start("wait", seconds=1))

    assert time.monotonic() - started >= 1


def test_success_of_a_token_is_the_tasks_result(workflow: Workflow) -> None:
    name = workflow.start("token")
    workflow.succeed(workflow.token(name), {"root": "abc"})

    assert workflow.result(name)["answer"] == {"root": "abc"}


def test_failure_of_a_token_is_the_tasks_error(workflow: Workflow) -> None:
    name = workflow.start("token")
    workflow.fail(workflow.token(name), "DiskFullError")

    assert workflow.result(name)["error"]["Error"] == "DiskFullError"


def test_used_token_is_refused(workflow: Workflow) -> None:
    name = workflow.start("token")
    token = workflow.token(name)
    workflow.succeed(token, {})
    workflow.result(name)

    assert workflow.succeed(token, {})["error"] in {"TaskDoesNotExist", "TaskTimedOut"}
    assert workflow.beat(token)["error"] in {"TaskDoesNotExist", "TaskTimedOut"}


def test_silent_task_ends_by_its_heartbeat(workflow: Workflow) -> None:
    name = workflow.start("token")
    started = time.monotonic()
    error = workflow.result(name)["error"]

    # The task catches States.ALL and has HeartbeatSeconds 2.
    assert error["Error"] == "States.HeartbeatTimeout"
    assert time.monotonic() - started < 5


def test_heartbeats_keep_a_task_waiting(workflow: Workflow) -> None:
    name = workflow.start("token")
    token = workflow.token(name)
    beats_until = time.monotonic() + 3.5
    while time.monotonic() < beats_until:
        assert "error" not in workflow.beat(token)
        time.sleep(0.3)
    workflow.succeed(token, "alive")

    assert workflow.result(name)["answer"] == "alive"


def test_retry_waits_for_a_new_token(workflow: Workflow) -> None:
    name = workflow.start("token")
    first = workflow.token(name)
    workflow.fail(first, "TryAgainError")
    second = workflow.token(name, other_than=first)

    assert "error" in workflow.succeed(first, "late")
    workflow.succeed(second, "second")
    assert workflow.result(name)["answer"] == "second"


def test_task_fails_when_its_token_cannot_be_handed_over(workflow: Workflow) -> None:
    found = workflow.end(workflow.start("broken_handover"))

    assert (found["status"], found["error"]) == ("FAILED", "CaptureFailedError")


def test_parallel_branches_wait_for_their_own_tokens(workflow: Workflow) -> None:
    names = [workflow.start("parallel") for _ in range(3)]
    tokens = {
        (name, part): workflow.token(f"{name}/{part}")
        for name in names
        for part in ("environment", "volume")
    }
    for (name, part), token in tokens.items():
        workflow.succeed(token, f"{name} {part}")

    assert len(set(tokens.values())) == 6
    for name in names:
        assert workflow.result(name)["both"] == [f"{name} environment", f"{name} volume"]


def test_first_failed_branch_stops_the_other(workflow: Workflow) -> None:
    name = workflow.start("parallel")
    environment = workflow.token(f"{name}/environment")
    workflow.fail(workflow.token(f"{name}/volume"), "DiskFullError")
    found = workflow.end(name)

    assert (found["status"], found["error"]) == ("FAILED", "DiskFullError")
    assert "error" in workflow.succeed(environment, "late")


def test_stopped_execution_stays_aborted_and_forgets_its_token(workflow: Workflow) -> None:
    name = workflow.start("token")
    token = workflow.token(name)
    workflow.server.client("stepfunctions").stop_execution(
        executionArn=workflow.describe(name)["executionArn"]
    )

    eventually(lambda: "error" in workflow.beat(token))
    assert workflow.describe(name)["status"] == "ABORTED"
