"""What agents send and get, with real bodies."""

import base64
from typing import Any

import pytest

from podferry.domain.command import Command, CommandState
from podferry.domain.machine import Machine, MachineState, Pulse
from podferry.domain.pod import Pod, PodState
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState, object_key
from tests.unit.http.deployment import Deployment, Reply, User
from tests.unit.http.messages import message
from tests.unit.http.running import (
    a_running_pod,
    a_stopped_pod,
    an_open_snapshot,
    boot_token,
    commit_snapshot,
    digest,
    machine_of,
    machine_token,
    put_on_machine,
)


class Agent:
    """Speaks for the machine of a pod."""

    def __init__(self, deployment: Deployment, machine: Machine) -> None:
        self.deployment = deployment
        self.machine_id = machine.id

    def post(self, path: str, body: Any, token: str | None = None) -> Reply:
        token = token or machine_token(self.machine_id)
        return self.deployment.call("POST", f"/agent/v1/{path}", body, token=token)

    def register(self, secret: str = "m" * 43) -> Reply:
        token = f"pfm_{self.machine_id}_{secret}"
        body = {**message("register.request"), "machine_id": self.machine_id}
        body["token_sha256"] = digest(token)
        return self.post("register", body, boot_token(self.machine_id))

    def beat(self, *reports: dict[str, Any]) -> Reply:
        return self.post("heartbeat", {**message("heartbeat.request"), "commands": list(reports)})


@pytest.fixture
def agent(user: User) -> Agent:
    pod_id = a_running_pod(user)
    return Agent(user.deployment, machine_of(user.deployment, pod_id))


@pytest.fixture
def booting(user: User) -> Agent:
    pod_id = a_stopped_pod(user)
    machine = put_on_machine(user.deployment, pod_id, MachineState.PROVISIONING, PodState.LAUNCHING)
    return Agent(user.deployment, machine)


def pod_of(agent: Agent) -> Pod:
    store = agent.deployment.ports.store
    return store.get(Pod, store.get(Machine, agent.machine_id).pod_id)


def test_an_agent_registers_and_beats_with_the_token_it_made(booting: Agent) -> None:
    reply = booting.register()
    assert reply.status == 200
    assert reply.json == {
        "machine_id": booting.machine_id,
        "pod_id": pod_of(booting).id,
        "epoch": 1,
        "heartbeat_seconds": 1.0,
    }
    assert booting.beat().status == 200
    facts = booting.deployment.ports.store.get(Machine, booting.machine_id).facts
    assert facts["gpus"][0]["name"] == "NVIDIA GeForce RTX 4090"


def test_a_lost_answer_to_a_registration_can_be_asked_for_again(booting: Agent) -> None:
    assert booting.register().json == booting.register().json


def test_a_second_process_cannot_register_the_same_machine(booting: Agent) -> None:
    booting.register()
    reply = booting.register("x" * 43)
    assert (reply.status, reply.code) == (409, "already_registered")


def test_a_box_that_tells_little_of_itself_can_register(booting: Agent) -> None:
    body = message("register.request.unknown_facts")
    body |= {"machine_id": booting.machine_id, "token_sha256": "0" * 64}
    assert booting.post("register", body, boot_token(booting.machine_id)).status == 200


def test_promise_05_a_machine_that_was_replaced_is_told_to_end_itself(
    user: User, agent: Agent
) -> None:
    pod = pod_of(agent)
    put_on_machine(agent.deployment, pod.id, MachineState.PROVISIONING, PodState.LAUNCHING)
    reply = agent.beat()
    assert (reply.status, reply.code) == (403, "epoch_stale")


def test_a_beat_keeps_what_was_measured(agent: Agent) -> None:
    assert agent.beat().status == 200
    pulse = agent.deployment.ports.store.get(Pulse, agent.machine_id)
    assert pulse.workload["state"] == "serving"
    assert pulse.metrics["gpus"][0]["utilization_percent"] == 37


def test_a_box_that_measures_nothing_can_beat(agent: Agent) -> None:
    assert agent.post("heartbeat", message("heartbeat.request.nothing_known")).status == 200


def test_a_command_goes_down_with_a_beat_and_its_end_comes_up_with_another(
    user: User, agent: Agent
) -> None:
    pod_id = pod_of(agent).id
    asked = user.post(f"/v1/pods/{pod_id}/exec", {"argv": ["id"], "timeout_seconds": 9}).json
    [command] = agent.beat().json["commands"]
    assert command == {
        "id": asked["id"],
        "kind": "exec",
        "args": {
            "argv": ["id"],
            "script": None,
            "stdin": None,
            "timeout_seconds": 9,
            "working_dir": None,
            "environment": {},
        },
        "timeout_seconds": 9,
    }
    chunk = {"sequence": 0, "stream": "stderr", "data": base64.b64encode(b"no").decode()}
    for _ in range(2):
        output = {"command_id": asked["id"], "chunks": [chunk]}
        assert agent.post("output", output).json == {}
    result = {"exit_code": 1, "timed_out": False, "truncated": False}
    ended = agent.beat({"id": asked["id"], "state": "succeeded", "result": result}).json
    assert (ended["commands"], ended["forget"]) == ([], [asked["id"]])
    seen = user.get(f"/v1/pods/{pod_id}/exec/{asked['id']}").json
    assert (seen["state"], seen["exit_code"]) == ("succeeded", 1)
    assert [(c["stream"], c["sequence"]) for c in seen["output"]] == [("stderr", 0)]


def test_progress_is_kept_with_the_command(user: User, agent: Agent) -> None:
    asked = user.post(f"/v1/pods/{pod_of(agent).id}/exec", {"script": "id"}).json
    progress = message("heartbeat.request")["commands"][0]["progress"]
    agent.beat({"id": asked["id"], "state": "running", "progress": progress})
    command = agent.deployment.ports.store.get(Command, asked["id"])
    assert (command.state, command.progress and command.progress.phase) == (
        CommandState.RUNNING,
        "upload",
    )


def test_promise_11_an_upload_is_for_one_object_of_ones_own_open_snapshot(agent: Agent) -> None:
    snapshot = an_open_snapshot(agent.deployment, pod_of(agent).id)
    body = {**message("uploads.request"), "snapshot_id": snapshot.id}
    uploads = agent.post("uploads", body).json["uploads"]
    assert [one["name"] for one in uploads] == [one["name"] for one in body["objects"]]
    assert all(one["url"] and one["headers"] for one in uploads)
    foreign = agent.post("uploads", {**body, "snapshot_id": "snap_" + "0" * 26})
    assert (foreign.status, foreign.code) == (404, "not_found")


@pytest.mark.parametrize(
    "name", ["../root", "packs/../x", "packs/" + "0" * 63, "pages/" + "A" * 64, "other"]
)
def test_an_object_has_one_of_our_names(agent: Agent, name: str) -> None:
    snapshot = an_open_snapshot(agent.deployment, pod_of(agent).id)
    one = {"name": name, "size": 1, "sha256": "0" * 64}
    body = {"snapshot_id": snapshot.id, "attempt_id": "att_1", "objects": [one]}
    assert agent.post("uploads", body).code == "invalid_request"


def test_a_finished_capture_is_noted_once_and_may_be_handed_in_again(agent: Agent) -> None:
    snapshot = an_open_snapshot(agent.deployment, pod_of(agent).id)
    body = {**message("commit.request"), "snapshot_id": snapshot.id}
    assert [agent.post("commit", body).json for _ in range(2)] == [{"is_settled": True}] * 2
    stored = agent.deployment.ports.store.get(Snapshot, snapshot.id)
    assert stored.state == SnapshotState.CAPTURED
    assert stored.summary["torn"] == ["/workspace/db.sqlite"]
    other = {**body, "root": {**body["root"], "sha256": "1" * 64}}
    assert agent.post("commit", other).code == "wrong_state"


def test_a_capture_with_thousands_of_warnings_is_not_refused(agent: Agent) -> None:
    snapshot = an_open_snapshot(agent.deployment, pod_of(agent).id)
    body = {**message("commit.request"), "snapshot_id": snapshot.id}
    body["summary"] = {
        **body["summary"],
        "torn": [f"/workspace/{'x' * 4000}/{i}" for i in range(300)],
    }
    assert agent.post("commit", body).status == 200
    torn = agent.deployment.ports.store.get(Snapshot, snapshot.id).summary["torn"]
    assert len(torn) == 100
    assert torn[7].startswith("/workspace/xxx")
    assert torn[7].endswith("xxx/7")


def test_the_root_of_a_committed_snapshot_can_be_downloaded(agent: Agent) -> None:
    deployment = agent.deployment
    snapshot = commit_snapshot(deployment, an_open_snapshot(deployment, pod_of(agent).id))
    key = object_key(snapshot.account_id, snapshot.id, "root")
    deployment.ports.objects.put(SnapshotKind.VOLUME, key, b"{}")
    wanted = {"snapshot_id": snapshot.id, "name": "root"}
    [one] = agent.post("downloads", {"snapshot_id": snapshot.id, "objects": [wanted]}).json[
        "downloads"
    ]
    assert deployment.ports.objects.serve(one["url"]) == (200, b"{}")


def test_of_an_open_snapshot_only_the_root_can_be_read_back(agent: Agent) -> None:
    snapshot = an_open_snapshot(agent.deployment, pod_of(agent).id)
    wanted = {"snapshot_id": snapshot.id, "name": "root"}
    reply = agent.post("downloads", {"snapshot_id": snapshot.id, "objects": [wanted]})
    assert reply.status == 200
    wanted["name"] = f"packs/{'0' * 64}"
    reply = agent.post("downloads", {"snapshot_id": snapshot.id, "objects": [wanted]})
    assert (reply.status, reply.code) == (404, "not_found")


def test_fields_that_a_newer_agent_sends_are_left_out(agent: Agent) -> None:
    body = message("heartbeat.request")
    body["mood"] = "fine"
    body["metrics"]["humidity"] = 0.4
    body["workload"]["since"] = "2026"
    assert agent.post("heartbeat", body).status == 200
    pulse = agent.deployment.ports.store.get(Pulse, agent.machine_id)
    assert "humidity" not in pulse.metrics


@pytest.mark.parametrize(
    ("path", "change", "where"),
    [
        ("heartbeat", {"sequence": -1}, "/sequence"),
        ("heartbeat", {"workload": {"state": "happy"}}, "/workload/state"),
        ("heartbeat", {"commands": [{"id": "x", "state": "done"}]}, "/commands/0/state"),
        ("uploads", {"objects": []}, "/objects"),
        ("uploads", {"objects": [{"name": "root", "size": 1, "sha256": "x"}]}, "/objects/0/sha256"),
        (
            "output",
            {"chunks": [{"sequence": 0, "stream": "stdin", "data": ""}]},
            "/chunks/0/stream",
        ),
        (
            "output",
            {"chunks": [{"sequence": 0, "stream": "stdout", "data": "?"}]},
            "/chunks/0/data",
        ),
        ("commit", {"root": None}, "/root"),
    ],
)
def test_what_no_agent_of_ours_sends_is_refused(
    agent: Agent, path: str, change: dict[str, Any], where: str
) -> None:
    reply = agent.post(path, {**message(f"{path}.request"), **change})
    assert (reply.status, reply.json["errors"][0]["where"]) == (400, where)


def test_a_result_that_is_too_long_is_cut_to_what_a_row_holds(user: User, agent: Agent) -> None:
    asked = user.post(f"/v1/pods/{pod_of(agent).id}/exec", {"script": "id"}).json
    result = {"exit_code": 0, "notes": ["y" * 10_000] * 200}
    agent.beat({"id": asked["id"], "state": "succeeded", "result": result})
    stored = agent.deployment.ports.store.get(Command, asked["id"]).result or {}
    assert len(stored["notes"]) == 100
    assert len(stored["notes"][0]) == 160


def test_an_absurd_number_in_a_result_is_refused(agent: Agent) -> None:
    reply = agent.beat({"id": "cmd_1", "state": "succeeded", "result": {"n": 10**40}})
    assert (reply.status, reply.code) == (400, "invalid_request")
