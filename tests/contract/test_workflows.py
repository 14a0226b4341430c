"""What every `Workflows` promises: executions by name, and steps that wait for an answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from podferry.adapters.aws.workflows import StepFunctionsWorkflows
from podferry.adapters.memory.workflows import Answer, MemoryWorkflows, Start
from podferry.domain.errors import InternalError
from podferry.ports.workflows import ExecutionStatus, Workflow, Workflows
from tests.contract.embedded import REGION, EmbeddedAws, unique

ACCOUNT = "000000000000"
DEADLINE_SECONDS = 15.0


class Bench(Protocol):
    """An engine whose workflows all consist of one step that waits."""

    @property
    def workflows(self) -> Workflows: ...

    def waiting_token(self, name: str) -> str:
        """The task token of the execution's waiting step."""

    def end(self, workflow: Workflow, name: str) -> None:
        """End an execution from outside."""

    def outcome(self, name: str, task_token: str) -> Answer:
        """How the waiting step was answered."""

    def starts(self) -> list[Start]:
        """Every execution."""


@dataclass
class MemoryBench:
    workflows: MemoryWorkflows

    def waiting_token(self, name: str) -> str:
        self.workflows.wait_for(f"token of {name}")
        return f"token of {name}"

    def end(self, workflow: Workflow, name: str) -> None:
        self.workflows.end(workflow, name)

    def outcome(self, name: str, task_token: str) -> Answer:
        return self.workflows.answers[task_token]

    def starts(self) -> list[Start]:
        return self.workflows.starts


def eventually(question: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if answer := question():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"still not true after {DEADLINE_SECONDS} s: {question}")


@dataclass
class EmbeddedBench:
    """State machines whose one task puts its token into a queue."""

    workflows: StepFunctionsWorkflows
    arns: dict[Workflow, str]
    queue_url: str
    states: Any
    queue: Any

    def waiting_token(self, name: str) -> str:
        def received() -> str | None:
            answer = self.queue.receive_message(QueueUrl=self.queue_url, WaitTimeSeconds=1)
            bodies = [json.loads(message["Body"]) for message in answer.get("Messages", [])]
            return next((body["token"] for body in bodies if body["name"] == name), None)

        token: str = eventually(received)
        return token

    def end(self, workflow: Workflow, name: str) -> None:
        self.states.stop_execution(executionArn=self._arn(workflow, name))
        eventually(lambda: self._describe(name)["status"] != "RUNNING")

    def outcome(self, name: str, task_token: str) -> Answer:
        eventually(lambda: self._describe(name)["status"] != "RUNNING")
        ended = self._describe(name)
        # The embedded engine also shows an output for failed executions; AWS does not.
        output = json.loads(ended["output"]) if ended["status"] == "SUCCEEDED" else None
        return Answer(output=output, error=ended.get("error"), cause=ended.get("cause"))

    def starts(self) -> list[Start]:
        return [
            Start(workflow, listed["name"], self._operation_id(listed["executionArn"]))
            for workflow, arn in self.arns.items()
            for listed in self.states.list_executions(stateMachineArn=arn)["executions"]
        ]

    def _operation_id(self, arn: str) -> str:
        described = self.states.describe_execution(executionArn=arn)
        operation_id: str = json.loads(described["input"])["operation_id"]
        return operation_id

    def _describe(self, name: str) -> Any:
        return self.states.describe_execution(executionArn=self._arn(Workflow.STOP, name))

    def _arn(self, workflow: Workflow, name: str) -> str:
        machine = self.arns[workflow].rpartition(":")[2]
        return f"arn:aws:states:{REGION}:{ACCOUNT}:execution:{machine}:{name}"


@pytest.fixture
def embedded_bench(embedded: EmbeddedAws) -> EmbeddedBench:
    queue_url = embedded.raw("sqs").create_queue(QueueName=unique("tokens"))["QueueUrl"]
    role_arn = _make_role(embedded.raw("iam"))
    states = embedded.raw("stepfunctions")
    arns = {
        workflow: states.create_state_machine(
            name=unique(workflow), roleArn=role_arn, definition=_one_waiting_step(queue_url)
        )["stateMachineArn"]
        for workflow in Workflow
    }
    workflows = StepFunctionsWorkflows(embedded.clients, arns)
    return EmbeddedBench(workflows, arns, queue_url, states, embedded.raw("sqs"))


def _make_role(iam: Any) -> str:
    name = unique("role")
    trust = _policy({"Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole"})
    arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    send = _policy({"Action": "sqs:SendMessage", "Resource": "*"})
    iam.put_role_policy(RoleName=name, PolicyName="send", PolicyDocument=send)
    return arn


def _policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})


def _one_waiting_step(queue_url: str) -> str:
    body = {"token.$": "$$.Task.Token", "name.$": "$$.Execution.Name"}
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": queue_url, "MessageBody": body},
        "TimeoutSeconds": 60,
        "End": True,
    }
    return json.dumps({"StartAt": "Wait", "States": {"Wait": task}})


@pytest.fixture(params=["memory", "embedded"])
def bench(request: pytest.FixtureRequest) -> Bench:
    if request.param == "memory":
        return MemoryBench(MemoryWorkflows())
    made: EmbeddedBench = request.getfixturevalue("embedded_bench")
    return made


def test_an_execution_runs_until_it_ends(bench: Bench) -> None:
    assert bench.workflows.status(Workflow.STOP, "op_1") == ExecutionStatus.MISSING

    bench.workflows.start(Workflow.STOP, "op_1", "op_1")
    assert bench.workflows.status(Workflow.STOP, "op_1") == ExecutionStatus.RUNNING

    bench.end(Workflow.STOP, "op_1")
    assert bench.workflows.status(Workflow.STOP, "op_1") == ExecutionStatus.ENDED


def test_promise_10_a_start_of_the_same_name_is_success_and_starts_nothing(bench: Bench) -> None:
    bench.workflows.start(Workflow.STOP, "op_1", "op_1")
    bench.workflows.start(Workflow.STOP, "op_1", "op_1")
    bench.end(Workflow.STOP, "op_1")
    bench.workflows.start(Workflow.STOP, "op_1", "op_1")

    assert bench.starts() == [Start(Workflow.STOP, "op_1", "op_1")]
    assert bench.workflows.status(Workflow.STOP, "op_1") == ExecutionStatus.ENDED


def test_one_name_in_two_workflows_is_two_executions(bench: Bench) -> None:
    bench.workflows.start(Workflow.LAUNCH, "op_1", "op_1")
    bench.workflows.start(Workflow.STOP, "op_1-2", "op_1")

    assert bench.workflows.status(Workflow.LAUNCH, "op_1") == ExecutionStatus.RUNNING
    assert bench.workflows.status(Workflow.STOP, "op_1") == ExecutionStatus.MISSING
    assert sorted(start.name for start in bench.starts()) == ["op_1", "op_1-2"]
    assert {start.operation_id for start in bench.starts()} == {"op_1"}


def test_a_waiting_step_is_answered_once(bench: Bench) -> None:
    bench.workflows.start(Workflow.STOP, "op_1", "op_1")
    token = bench.waiting_token("op_1")

    assert bench.workflows.succeed(token, {"bytes": 7, "paths": ["ä"]})
    assert bench.outcome("op_1", token) == Answer(output={"bytes": 7, "paths": ["ä"]})

    assert not bench.workflows.succeed(token, {})
    assert not bench.workflows.fail(token, "AgentFailedError", "late")
    assert not bench.workflows.beat(token)


def test_a_waiting_step_can_be_failed(bench: Bench) -> None:
    bench.workflows.start(Workflow.STOP, "op_1", "op_1")
    token = bench.waiting_token("op_1")

    assert bench.workflows.fail(token, "AgentFailedError", "disk full")

    answer = bench.outcome("op_1", token)
    assert answer == Answer(error="AgentFailedError", cause="disk full")
    assert not bench.workflows.succeed(token, {})


def test_a_beat_does_not_answer(bench: Bench) -> None:
    bench.workflows.start(Workflow.STOP, "op_1", "op_1")
    token = bench.waiting_token("op_1")

    assert bench.workflows.beat(token)
    assert bench.workflows.beat(token)
    assert bench.workflows.succeed(token, {})


@pytest.mark.parametrize("token", ["never-made", "x" * 300])
def test_nobody_waits_for_an_unknown_token(bench: Bench, token: str) -> None:
    assert not bench.workflows.succeed(token, {})
    assert not bench.workflows.fail(token, "AgentFailedError", "cause")
    assert not bench.workflows.beat(token)


def test_a_cause_that_is_too_long_for_aws_is_cut(embedded_bench: EmbeddedBench) -> None:
    embedded_bench.workflows.start(Workflow.STOP, "op_1", "op_1")
    token = embedded_bench.waiting_token("op_1")

    assert embedded_bench.workflows.fail(token, "AgentFailedError", "x" * 40_000)

    assert embedded_bench.outcome("op_1", token).cause == "x" * 32_768


def test_a_missing_state_machine_is_our_mistake(embedded: EmbeddedAws) -> None:
    arn = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:none"
    workflows = StepFunctionsWorkflows(embedded.clients, {Workflow.STOP: arn})

    with pytest.raises(InternalError, match="StateMachineDoesNotExist"):
        workflows.start(Workflow.STOP, "op_1", "op_1")
