"""The control plane reads what the agent sends, and sends what the agent reads."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from podferry.domain.command import Command, CommandKind
from podferry.domain.errors import (
    AlreadyRegisteredError,
    EpochStaleError,
    PodferryError,
    TokenInvalidError,
)
from podferry.http.agent.beat import HeartbeatBody, HeartbeatReply, ReportBody, SaveBody, SaveReply
from podferry.http.agent.notice import NoticeBody, NoticeReply
from podferry.http.agent.objects import (
    CommitBody,
    CommitReply,
    DownloadsBody,
    DownloadsReply,
    OutputBody,
    Taken,
    UploadsBody,
    UploadsReply,
)
from podferry.http.agent.reach import HostKeyBody, HostKeyReply, LoginKeysBody, LoginKeysReply
from podferry.http.agent.registration import RegisterBody, RegisterReply
from podferry.http.agent.secrets import SecretsBody, SecretsReply
from podferry.http.problem import Problem, problem_response
from podferry.services.agent.heartbeat import BeatReply

MESSAGES = Path(__file__).parent / "messages"
MODELS: dict[str, type[BaseModel]] = {
    "register.request": RegisterBody,
    "register.response": RegisterReply,
    "heartbeat.request": HeartbeatBody,
    "heartbeat.response": HeartbeatReply,
    "uploads.request": UploadsBody,
    "uploads.response": UploadsReply,
    "downloads.request": DownloadsBody,
    "downloads.response": DownloadsReply,
    "commit.request": CommitBody,
    "commit.response": CommitReply,
    "notice.request": NoticeBody,
    "notice.response": NoticeReply,
    "snapshots.request": SaveBody,
    "snapshots.response": SaveReply,
    "host-key.request": HostKeyBody,
    "host-key.response": HostKeyReply,
    "ssh-keys.request": LoginKeysBody,
    "ssh-keys.response": LoginKeysReply,
    "secrets.request": SecretsBody,
    "secrets.response": SecretsReply,
    "output.request": OutputBody,
    "output.response": Taken,
}
NAMES = sorted(path.stem for path in MESSAGES.glob("*.json"))
CALLS = [name for name in NAMES if not name.startswith(("result.", "problem."))]


def message(name: str) -> Any:
    return json.loads((MESSAGES / f"{name}.json").read_text(encoding="utf-8"))


def model_of(name: str) -> type[BaseModel]:
    return MODELS[".".join(name.split(".")[:2])]


def test_there_is_an_example_of_every_message() -> None:
    assert {".".join(name.split(".")[:2]) for name in CALLS} == set(MODELS)


@pytest.mark.parametrize("name", CALLS)
def test_every_message_is_read_by_its_model(name: str) -> None:
    model_of(name).model_validate(message(name))


@pytest.mark.parametrize("name", [name for name in CALLS if ".request" in name])
def test_nothing_that_an_agent_sends_today_is_lost(name: str) -> None:
    """Unknown fields are left out in silence, so the examples must have none."""
    sent = message(name)
    kept = model_of(name).model_validate(sent).model_dump(mode="json")
    assert covers(kept, sent)


def covers(kept: Any, sent: Any) -> bool:
    """Whether everything sent is there; what was left out may have got its default."""
    if isinstance(sent, dict):
        return all(name in kept and covers(kept[name], value) for name, value in sent.items())
    if isinstance(sent, list):
        return len(kept) == len(sent) and all(map(covers, kept, sent))
    return bool(kept == sent)


@pytest.mark.parametrize("name", [name for name in CALLS if ".response" in name])
def test_answers_are_sent_exactly_as_the_agent_reads_them(name: str) -> None:
    answer = model_of(name).model_validate(message(name))
    assert json.loads(answer.model_dump_json()) == message(name)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("result.")])
def test_results_of_commands_arrive_whole(name: str) -> None:
    report = {"id": "cmd_1", "state": "succeeded", "result": message(name)}
    assert ReportBody.model_validate(report).to_report().result == message(name)


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("heartbeat.response")])
def test_commands_go_out_from_their_rows(name: str) -> None:
    for sent in message(name)["commands"]:
        command = Command(
            id=sent["id"],
            account_id="acct_1",
            created_at=datetime(2026, 11, 30, tzinfo=UTC),
            machine_id="mach_1",
            pod_id="pod_1",
            kind=CommandKind(sent["kind"]),
            arguments=sent["args"],
            timeout_seconds=sent["timeout_seconds"],
        )
        reply = HeartbeatReply.of(BeatReply(heartbeat_seconds=1, commands=(command,)))
        assert json.loads(reply.model_dump_json())["commands"] == [sent]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("problem.")])
def test_problems_have_the_shape_that_the_agent_reads(name: str) -> None:
    Problem.model_validate(message(name))


@pytest.mark.parametrize(
    "error", [TokenInvalidError("x"), EpochStaleError("x"), AlreadyRegisteredError("x")]
)
def test_refusals_carry_the_code_and_status_that_the_agent_acts_on(error: PodferryError) -> None:
    known = message(f"problem.{error.code}")
    response = problem_response(error, "req-1")
    sent = json.loads(response.body or "")
    assert (sent["code"], sent["status"]) == (known["code"], known["status"])
    assert response.status_code == known["status"]
