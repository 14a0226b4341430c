"""Starting, stopping, moving; commands; operations; patience."""

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from podferry.domain.command import Command, CommandKind, CommandState, OutputChunk, Progress
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.ports.store import Create, Update
from tests.unit.http.deployment import Deployment, User
from tests.unit.http.running import a_running_pod, a_stopped_pod, end_operation, machine_of


def test_a_start_answers_202_with_where_to_follow_it(user: User) -> None:
    pod_id = a_stopped_pod(user)
    reply = user.post(f"/v1/pods/{pod_id}/start")
    assert (reply.status, reply.json["kind"], reply.json["state"]) == (202, "start", "running")
    assert reply.headers["Location"] == f"/v1/operations/{reply.json['id']}"
    assert int(reply.headers["Retry-After"]) >= 1
    assert user.get(reply.headers["Location"]).json["pod_id"] == pod_id


def test_a_start_can_ask_for_something_else_this_once(user: User) -> None:
    pod_id = a_stopped_pod(user)
    reply = user.post(f"/v1/pods/{pod_id}/start", {"requirements": {"gpu_names": ["H100"]}})
    assert reply.json["requirements"]["gpu_names"] == ["H100"]
    assert user.get(f"/v1/pods/{pod_id}").json["requirements"]["gpu_names"] == []


def test_a_second_start_is_refused_and_names_the_first(user: User) -> None:
    pod_id = a_stopped_pod(user)
    first = user.post(f"/v1/pods/{pod_id}/start").json["id"]
    second = user.post(f"/v1/pods/{pod_id}/start")
    assert (second.status, second.code) == (409, "wrong_state")
    assert first in second.json["detail"]


def test_a_stop_and_a_move_answer_202(user: User) -> None:
    stop = user.post(f"/v1/pods/{a_running_pod(user)}/stop", {"accept_loss": True})
    move = user.post(f"/v1/pods/{a_running_pod(user)}/move", {"requirements": {"gpu_count": 2}})
    assert (stop.status, stop.json["kind"], stop.json["accept_loss"]) == (202, "stop", True)
    assert (move.status, move.json["kind"], len(move.json["halves"])) == (202, "move", 2)


@pytest.mark.parametrize(
    ("verb", "a_pod"), [("start", a_stopped_pod), ("move", a_running_pod), ("", a_stopped_pod)]
)
def test_a_provider_that_there_is_not_is_refused_before_anything_is_begun(
    user: User, verb: str, a_pod: Callable[[User], str]
) -> None:
    pod_id = a_pod(user)
    before = user.get(f"/v1/pods/{pod_id}").json
    wanted = {"requirements": {"providers": ["fluence_"]}}
    path = f"/v1/pods/{pod_id}"
    reply = user.post(f"{path}/{verb}", wanted) if verb else user.patch(path, wanted)
    assert (reply.status, reply.code) == (400, "invalid_request")
    assert [error["where"] for error in reply.json["errors"]] == ["/requirements/providers/0"]
    assert "no provider fluence_; there are" in reply.json["detail"]
    assert user.get(path).json == before


@pytest.mark.parametrize("verb", ["stop", "move"])
def test_only_a_running_pod_can_stop_or_move(user: User, verb: str) -> None:
    reply = user.post(f"/v1/pods/{a_stopped_pod(user)}/{verb}")
    assert (reply.status, reply.code) == (409, "wrong_state")


def test_an_operation_shows_the_progress_of_its_steps(user: User) -> None:
    pod_id = a_running_pod(user)
    operation_id = user.post(f"/v1/pods/{pod_id}/stop").json["id"]
    store = user.deployment.ports.store
    operation = store.get(Operation, operation_id)
    progress = Progress(phase="upload", bytes_done=5, bytes_total=10, eta_seconds=2.5)
    command = Command(
        id="cmd_1-CaptureVolume-1",
        account_id=operation.account_id,
        created_at=operation.created_at,
        machine_id=machine_of(user.deployment, pod_id).id,
        pod_id=pod_id,
        kind=CommandKind.CAPTURE,
        arguments={},
        timeout_seconds=60,
        step="CaptureVolume",
        state=CommandState.RUNNING,
        progress=progress,
    )
    store.commit(Create(command), Update(replace(operation, commands=(command.id,))))
    seen = user.get(f"/v1/operations/{operation_id}").json["progress"]
    assert seen["CaptureVolume"]["phase"] == "upload"
    assert seen["CaptureVolume"]["eta_seconds"] == 2.5
    in_pod = user.get(f"/v1/pods/{pod_id}").json["operation"]["progress"]
    assert in_pod == seen


def test_a_pods_operations_are_listed_newest_first(user: User) -> None:
    pod_id = a_stopped_pod(user)
    operation_id = user.post(f"/v1/pods/{pod_id}/start").json["id"]
    listed = user.get(f"/v1/pods/{pod_id}/operations").json["data"]
    assert [operation["id"] for operation in listed] == [operation_id]


def test_a_cancel_is_seen_on_the_operation_and_the_pod(user: User) -> None:
    pod_id = a_stopped_pod(user)
    operation_id = user.post(f"/v1/pods/{pod_id}/start").json["id"]
    reply = user.post(f"/v1/operations/{operation_id}/cancel")
    assert (reply.status, reply.json["is_cancel_asked"]) == (202, True)
    assert user.get(f"/v1/pods/{pod_id}").json["state"] == "stopping"


def test_operations_of_other_accounts_do_not_exist(deployment: Deployment, user: User) -> None:
    operation_id = user.post(f"/v1/pods/{a_stopped_pod(user)}/start").json["id"]
    stranger = deployment.an_account("stranger")
    assert stranger.get(f"/v1/operations/{operation_id}").code == "not_found"
    assert stranger.post(f"/v1/operations/{operation_id}/cancel").code == "not_found"


def test_who_waits_long_enough_gets_the_end_with_200(user: User) -> None:
    pod_id = a_stopped_pod(user)
    operation_id = user.post(f"/v1/pods/{pod_id}/start").json["id"]
    ending_after(user.deployment, 3, lambda: end_operation(user.deployment, operation_id))
    reply = user.get(f"/v1/operations/{operation_id}", headers={"Prefer": "wait=20"})
    assert (reply.json["state"], reply.json["result"]) == ("succeeded", {"files": 7})
    assert len(user.deployment.pauses) == 3


def test_a_stop_that_ends_while_its_caller_waits_answers_200(user: User) -> None:
    pod_id = a_running_pod(user)
    deployment = user.deployment

    def end() -> None:
        pod = deployment.ports.store.get(Pod, pod_id)
        end_operation(deployment, pod.operation_id or "")

    ending_after(deployment, 2, end)
    reply = user.post(f"/v1/pods/{pod_id}/stop", headers={"Prefer": "wait=10"})
    assert (reply.status, reply.json["state"]) == (200, "succeeded")
    assert "Retry-After" not in reply.headers


def test_who_does_not_wait_long_enough_gets_202(user: User) -> None:
    reply = user.post(f"/v1/pods/{a_stopped_pod(user)}/start", headers={"Prefer": "wait=3"})
    assert (reply.status, reply.json["state"]) == (202, "running")
    assert sum(user.deployment.pauses) == pytest.approx(3)


def test_nobody_waits_longer_than_25_seconds_or_than_the_function_lives(user: User) -> None:
    operation_id = user.post(f"/v1/pods/{a_stopped_pod(user)}/start").json["id"]
    deployment = user.deployment
    deployment.context.seconds = 1000
    user.get(f"/v1/operations/{operation_id}", headers={"Prefer": "wait=999"})
    assert sum(deployment.pauses) == pytest.approx(25)
    deployment.pauses.clear()
    deployment.context.seconds = 6
    user.get(f"/v1/operations/{operation_id}", headers={"Prefer": "wait=20"})
    assert sum(deployment.pauses) <= 4


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        ("", 0),
        ("wait=x", 0),
        ("wait=-1", 0),
        ("return=minimal", 0),
        ("await=9", 0),
        ("respond-async, wait=2", 2),
        ('Wait = "3"; strict', 3),
        ("wait=0", 0),
    ],
)
def test_preferences_that_we_do_not_know_are_left_aside(
    user: User, prefer: str, seconds: int
) -> None:
    operation_id = user.post(f"/v1/pods/{a_stopped_pod(user)}/start").json["id"]
    reply = user.get(f"/v1/operations/{operation_id}", headers={"Prefer": prefer})
    assert reply.status == 200
    assert sum(user.deployment.pauses) == pytest.approx(seconds)


def test_a_command_goes_to_the_machine_and_its_output_comes_back_in_pieces(user: User) -> None:
    pod_id = a_running_pod(user)
    body = {"argv": ["ls", "-l", "/"], "timeout_seconds": 5, "working_dir": "/tmp"}
    asked = user.post(f"/v1/pods/{pod_id}/exec", body)
    assert (asked.status, asked.json["state"]) == (202, "pending")
    path = asked.headers["Location"]
    write_output(user.deployment, asked.json["id"], ["a", "b", "c"])
    first = user.get(path, query={"limit": 2}).json
    assert [text_of(piece) for piece in first["output"]] == ["a", "b"]
    rest = user.get(path, query={"after": first["next_after"]}).json
    assert [text_of(piece) for piece in rest["output"]] == ["c"]
    assert (rest["next_after"], rest["has_more"]) == (2, False)


def test_a_command_that_ends_while_its_caller_waits_answers_200(user: User) -> None:
    pod_id = a_running_pod(user)
    deployment = user.deployment
    store = deployment.ports.store

    def end() -> None:
        machine = machine_of(deployment, pod_id)
        command = store.list_owned(Command, machine.id).items[0]
        write_output(deployment, command.id, ["done"])
        done = {"exit_code": 3, "timed_out": False, "truncated": True}
        state = CommandState.SUCCEEDED
        store.commit(
            Update(replace(command, state=state, result=done, ended_at=command.created_at))
        )

    ending_after(deployment, 2, end)
    reply = user.post(f"/v1/pods/{pod_id}/exec", {"script": "exit 3"}, headers={"Prefer": "wait=5"})
    assert reply.status == 200
    assert (reply.json["exit_code"], reply.json["truncated"]) == (3, True)
    assert [text_of(piece) for piece in reply.json["output"]] == ["done"]


@pytest.mark.parametrize(
    "body",
    [{}, {"argv": ["ls"], "script": "ls"}, {"argv": []}, {"script": "a\x00b"},
     {"script": "x", "stdin": "not base64"}, {"script": "x", "timeout_seconds": 0},
     {"script": "x", "working_dir": "relative"}, {"script": "x", "environment": {"1A": "x"}}],
)  # fmt: skip
def test_a_command_that_cannot_be_run_as_it_stands_is_refused(
    user: User, body: dict[str, object]
) -> None:
    reply = user.post(f"/v1/pods/{a_running_pod(user)}/exec", body)
    assert (reply.status, reply.code) == (400, "invalid_request")


def test_a_stopped_pod_runs_no_commands(user: User) -> None:
    reply = user.post(f"/v1/pods/{a_stopped_pod(user)}/exec", {"script": "id"})
    assert (reply.status, reply.code) == (409, "wrong_state")


def test_a_command_is_found_under_its_own_pod_only(user: User) -> None:
    pod_id, other = a_running_pod(user), a_running_pod(user)
    command_id = user.post(f"/v1/pods/{pod_id}/exec", {"script": "id"}).json["id"]
    assert user.get(f"/v1/pods/{other}/exec/{command_id}").code == "not_found"


def ending_after(deployment: Deployment, pauses: int, end: Callable[[], None]) -> None:
    """Let `end` happen during the given pause of whoever waits."""
    plain = deployment.pause

    def pause(seconds: float) -> None:
        plain(seconds)
        deployment.ports.clock.advance(timedelta(seconds=seconds))
        if len(deployment.pauses) == pauses:
            end()

    deployment.pause = pause  # type: ignore[method-assign]


def write_output(deployment: Deployment, command_id: str, texts: list[str]) -> None:
    for sequence, text in enumerate(texts):
        chunk = OutputChunk(
            id=f"{command_id}_{sequence:08d}",
            account_id="",
            created_at=deployment.ports.clock.now(),
            command_id=command_id,
            sequence=sequence,
            stream="stdout",
            data=base64.b64encode(text.encode()).decode(),
        )
        deployment.ports.store.commit(Create(chunk))


def text_of(piece: dict[str, str]) -> str:
    return base64.b64decode(piece["data"]).decode()
