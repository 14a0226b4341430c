"""The agent reads what the control plane sends, and sends what the control plane reads."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import urllib3

from podferry_agent import api, wire
from podferry_agent.errors import (
    ApiError,
    ApiUnreachableError,
    EpochStaleError,
    TokenInvalidError,
    WireError,
)
from podferry_agent.fields import Fields
from podferry_agent.journal import JournalEntry
from podferry_agent.register import Identity, build_registration

MESSAGES = Path(__file__).parent / "messages"
ARGS_PARSERS: dict[str, Any] = {
    "quiesce": wire.QuiesceArgs.parse,
    "capture": wire.CaptureArgs.parse,
    "restore": wire.RestoreArgs.parse,
    "run": wire.RunArgs.parse,
    "exec": wire.ExecArgs.parse,
    "cancel": lambda fields: fields.text("command_id"),
    "shutdown": lambda fields: fields.text("reason"),
    "resume": lambda _fields: None,
}


def message(name: str) -> Any:
    return json.loads((MESSAGES / f"{name}.json").read_text())


def names(prefix: str) -> list[str]:
    found = sorted(path.stem for path in MESSAGES.glob(f"{prefix}*.json"))
    assert found, f"no message begins with {prefix}"
    return found


@pytest.mark.parametrize("name", names("heartbeat.response"))
def test_every_command_of_a_heartbeat_reply_is_understood(name: str) -> None:
    reply = wire.HeartbeatReply.parse(message(name))
    assert reply.heartbeat_seconds > 0
    for command in reply.commands:
        ARGS_PARSERS[command.kind](command.fields())


def test_every_command_kind_has_an_example() -> None:
    kinds = {
        command["kind"]
        for name in names("heartbeat.response")
        for command in message(name)["commands"]
    }
    assert kinds == set(ARGS_PARSERS)


def test_capture_arguments_are_read_whole() -> None:
    reply = wire.HeartbeatReply.parse(message("heartbeat.response.capture"))
    first, second = (wire.CaptureArgs.parse(command.fields()) for command in reply.commands)
    assert (first.kind, second.kind) == ("environment", "volume")
    assert first.chunk_key == bytes(range(32))
    assert first.parent == "snap_01j00000000000000000000000"
    assert second.parent is None


def test_save_to_make_and_the_time_to_the_next_one_are_understood() -> None:
    reply = wire.SaveReply.parse(message("snapshots.response"))
    assert reply.command is not None
    assert wire.CaptureArgs.parse(reply.command.fields()).is_live
    assert wire.SaveReply.parse(message("snapshots.response.not_due")) == wire.SaveReply(
        None, 271.5
    )


def test_host_key_and_login_keys_are_understood() -> None:
    reply = wire.HostKeyReply.parse(message("host-key.response"))
    assert reply.private_key == message("host-key.request.offered")["private_key"]
    assert "PRIVATE KEY" not in repr(reply)
    assert wire.HostKeyReply.parse(message("host-key.response.none_yet")).private_key is None
    (line,) = wire.AuthorizedKeysReply.parse(message("ssh-keys.response")).authorized_keys
    assert line.startswith("ssh-ed25519 ")


def test_secrets_are_understood_and_not_shown() -> None:
    reply = wire.SecretsReply.parse(message("secrets.response"))
    assert reply.variables == message("secrets.response")["variables"]
    assert "hf_example" not in repr(reply)
    assert wire.SecretsReply.parse(message("secrets.response.missing")).missing == ("hf",)


def test_a_notice_is_said_as_agreed_and_its_answer_understood() -> None:
    assert wire.Notice("reclaim", "ec2", 118.5).to_json() == message("notice.request")
    said = wire.Notice("shutdown", "sigterm", None).to_json()
    assert said == message("notice.request.shutdown")
    reply = wire.NoticeReply.parse(message("notice.response"))
    assert reply.command is not None
    assert wire.CaptureArgs.parse(reply.command.fields()).is_live
    assert wire.NoticeReply.parse(message("notice.response.nothing_to_save")).command is None


def test_answer_to_a_hand_in_says_whether_it_is_over() -> None:
    assert wire.is_settled(message("commit.response"))
    assert not wire.is_settled({"is_settled": False})


def test_register_reply_is_understood() -> None:
    registration = wire.Registration.parse(message("register.response"))
    assert registration.epoch == 3


def test_register_request_has_exactly_the_agreed_fields() -> None:
    built = build_registration(Identity("mach_1", "pfm_mach_1_secret"), {})
    assert set(built) == set(message("register.request"))


def test_upload_and_download_replies_answer_the_requests() -> None:
    uploads = wire.UploadGrant.parse_all(message("uploads.response"))
    assert set(uploads) == {item["name"] for item in message("uploads.request")["objects"]}
    asked = message("downloads.request")["objects"]
    downloads = wire.DownloadGrant.parse_all(message("downloads.response"))
    assert set(downloads) == {(item["snapshot_id"], item["name"]) for item in asked}


def test_objects_are_described_as_agreed() -> None:
    for item in message("uploads.request")["objects"]:
        assert wire.StoredObject(**item).to_json() == item


def test_command_reports_have_exactly_the_agreed_fields() -> None:
    for name in names("heartbeat.request"):
        for report in message(name)["commands"]:
            entry = JournalEntry(
                report["id"], "any", report["state"], result=report["result"], error=report["error"]
            )
            assert entry.report(report["progress"]) == report


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("problem.token_invalid", TokenInvalidError),
        ("problem.epoch_stale", EpochStaleError),
        ("problem.already_registered", ApiError),
        ("problem.throttled", ApiUnreachableError),
        ("problem.unavailable", ApiUnreachableError),
    ],
)
def test_problems_become_typed_errors(name: str, expected: type[Exception]) -> None:
    problem = message(name)
    stale: list[bool] = []
    settings = api.ApiSettings("http://127.0.0.1:9", 1, 1)
    client = api.ApiClient(
        settings, urllib3.PoolManager(), threading.Event(), lambda: stale.append(True)
    )
    response = urllib3.HTTPResponse(json.dumps(problem).encode(), status=problem["status"])
    with pytest.raises(expected) as caught:
        client._answer(response)
    assert type(caught.value) is expected
    assert bool(stale) == (expected is EpochStaleError)


def test_wrong_field_is_named_in_the_error() -> None:
    reply = message("heartbeat.response.run")
    reply["commands"][0]["args"]["port"] = "8000"
    command = wire.HeartbeatReply.parse(reply).commands[0]
    with pytest.raises(WireError, match=r"run\.args\.port must be an integer, but is str"):
        wire.RunArgs.parse(command.fields())


def test_unknown_fields_are_ignored() -> None:
    reply = {**message("register.response"), "motd": "hello"}
    assert wire.Registration.parse(reply).machine_id == reply["machine_id"]


def test_missing_list_means_empty_and_missing_text_is_an_error() -> None:
    assert Fields({}, "x").texts("rules") == ()
    with pytest.raises(WireError, match=r"x\.id must be a non-empty string, but is missing"):
        Fields({}, "x").text("id")
