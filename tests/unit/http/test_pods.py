"""Making, seeing, changing and deleting pods over HTTP."""

from datetime import timedelta

import pytest

from podferry.domain.machine import MachineState
from podferry.domain.pod import PodState
from tests.unit.http.deployment import Deployment, User
from tests.unit.http.running import a_running_pod, a_stopped_pod, put_on_machine

NEW = {"name": "trainer", "spec": {"image": "debian:12"}}


def test_a_new_pod_is_launched_and_answers_202_with_its_operation(user: User) -> None:
    reply = user.post("/v1/pods", NEW)
    assert reply.status == 202
    operation = reply.json["operation"]
    assert reply.headers["Location"] == f"/v1/operations/{operation['id']}"
    assert int(reply.headers["Retry-After"]) >= 1
    assert (reply.json["state"], operation["kind"]) == ("launching", "launch")
    assert [s.name for s in user.deployment.ports.workflows.starts] == [operation["id"]]


def test_a_pod_that_is_not_to_start_answers_201_and_is_stopped(user: User) -> None:
    reply = user.post("/v1/pods", {**NEW, "start": False})
    assert reply.status == 201
    assert reply.headers["Location"] == f"/v1/pods/{reply.json['id']}"
    assert (reply.json["state"], reply.json["operation"]) == ("stopped", None)


def test_a_new_pod_keeps_everything_that_was_said_about_it(user: User) -> None:
    spec = {
        "image": "nvidia/cuda:12.4.1-base-ubuntu22.04",
        "startup_script": "#!/bin/sh\nexec serve\n",
        "on_stop_script": "sync",
        "environment": {"MODEL": "tiny", "EMPTY": ""},
        "ports": [22, 8000],
        "serving_port": 8000,
        "start_timeout_seconds": 900,
        "stop_grace_seconds": 5,
        "capacity_wait_seconds": 60,
    }
    requirements = {
        "gpu_names": ["RTX 4090", "H100"],
        "gpu_count": 2,
        "min_vram_gib": 24,
        "min_vcpus": 8,
        "min_memory_gib": 32,
        "disk_gib": 100,
        "providers": ["vastai"],
        "countries": ["DE", "NL"],
        "max_price_microusd_per_hour": 900_000,
        "markets": ["on_demand", "spot"],
        "kinds": ["vm"],
        "min_reliability": 0.95,
        "min_cuda": "12.4",
    }
    body = {
        "name": "träiner 1",
        "spec": spec,
        "requirements": requirements,
        "capture_rules": ["- /var/tmp"],
        "start": False,
    }
    pod_id = user.post("/v1/pods", body).json["id"]
    seen = user.get(f"/v1/pods/{pod_id}").json
    assert (seen["spec"], seen["requirements"]) == (spec, requirements)
    assert (seen["name"], seen["capture_rules"]) == ("träiner 1", ["- /var/tmp"])


def test_a_pod_on_a_volume_in_use_is_refused(user: User) -> None:
    pod = user.get(f"/v1/pods/{a_running_pod(user)}").json
    reply = user.post("/v1/pods", {**NEW, "volume": {"id": pod["volume"]["id"]}})
    assert (reply.status, reply.code) == (409, "volume_busy")


def test_lists_come_in_pages_that_hold_each_pod_once(user: User) -> None:
    made = [a_stopped_pod(user, name=f"pod {i}") for i in range(5)]
    seen, cursor = [], None
    for _ in range(3):
        query = {"limit": 2} if cursor is None else {"limit": 2, "cursor": cursor}
        page = user.get("/v1/pods", query=query).json
        seen += [pod["id"] for pod in page["data"]]
        cursor = page["next_cursor"]
    assert cursor is None
    assert sorted(seen) == sorted(made)


def test_a_running_pod_shows_its_machine_and_what_it_cost_so_far(user: User) -> None:
    pod_id = a_running_pod(user)
    seen = user.get(f"/v1/pods/{pod_id}").json
    assert seen["state"] == "running"
    machine = seen["machine"]
    assert (machine["provider"], machine["gpu_name"]) == ("vastai", "RTX 4090")
    assert machine["ports"] == [{"internal": 22, "host": "203.0.113.5", "external": 40022}]
    assert machine["price_microusd_per_hour"] == 300_000
    assert machine["cost_so_far_microusd"] == 0
    summary = user.get("/v1/pods").json["data"][0]
    assert (summary["state"], summary["machine"]["id"]) == ("running", machine["id"])


def test_promise_06_list_and_view_show_the_same_word_when_the_machine_is_silent(user: User) -> None:
    pod_id = a_running_pod(user)
    user.deployment.ports.clock.advance(timedelta(minutes=5))
    assert user.get(f"/v1/pods/{pod_id}").json["state"] == "unreachable"
    assert user.get("/v1/pods").json["data"][0]["state"] == "unreachable"


def test_a_patch_changes_what_is_given_and_leaves_the_rest(user: User) -> None:
    pod_id = a_stopped_pod(
        user, spec={"image": "debian:12", "startup_script": "true", "environment": {"A": "1"}}
    )
    patch = {"spec": {"startup_script": None, "ports": [8080]}, "requirements": {"disk_gib": 50}}
    reply = user.patch(f"/v1/pods/{pod_id}", patch)
    assert reply.status == 200
    assert reply.json["spec"]["startup_script"] is None
    assert reply.json["spec"]["ports"] == [8080]
    assert reply.json["spec"]["environment"] == {"A": "1"}
    assert reply.json["requirements"]["disk_gib"] == 50
    assert reply.json["name"] == "trainer"


def test_a_change_that_is_based_on_an_old_revision_is_refused(user: User) -> None:
    pod_id = a_stopped_pod(user)
    etag = user.get(f"/v1/pods/{pod_id}").headers["ETag"]
    first = user.patch(f"/v1/pods/{pod_id}", {"name": "a"}, headers={"If-Match": etag})
    second = user.patch(f"/v1/pods/{pod_id}", {"name": "b"}, headers={"If-Match": etag})
    assert (first.status, second.status) == (200, 412)
    assert second.code == "precondition_failed"
    assert first.headers["ETag"] in second.json["detail"]
    assert user.get(f"/v1/pods/{pod_id}").json["name"] == "a"


@pytest.mark.parametrize("if_match", ["*", '"999", {etag}'])
def test_if_match_takes_a_star_and_lists(user: User, if_match: str) -> None:
    pod_id = a_stopped_pod(user)
    etag = user.get(f"/v1/pods/{pod_id}").headers["ETag"]
    header = {"If-Match": if_match.format(etag=etag)}
    assert user.patch(f"/v1/pods/{pod_id}", {"name": "a"}, headers=header).status == 200


def test_an_unreadable_if_match_is_a_bad_request(user: User) -> None:
    pod_id = a_stopped_pod(user)
    reply = user.patch(f"/v1/pods/{pod_id}", {"name": "a"}, headers={"If-Match": "seven"})
    assert (reply.status, reply.json["errors"][0]["where"]) == (400, "header if-match")


def test_a_deleted_pod_leaves_the_list_and_deleting_twice_is_one_deletion(user: User) -> None:
    pod_id = a_stopped_pod(user)
    replies = [user.delete(f"/v1/pods/{pod_id}") for _ in range(2)]
    assert [(r.status, r.text) for r in replies] == [(204, ""), (204, "")]
    assert user.get("/v1/pods").json["data"] == []
    assert user.get(f"/v1/pods/{pod_id}").json["state"] == "deleted"


def test_a_running_pod_is_not_deleted_but_must_be_stopped_first(user: User) -> None:
    pod_id = a_running_pod(user)
    reply = user.delete(f"/v1/pods/{pod_id}")
    assert (reply.status, reply.code) == (409, "wrong_state")
    assert "is running; stop it first" in reply.json["detail"]
    assert user.get(f"/v1/pods/{pod_id}").json["state"] == "running"


def test_events_tell_what_happened_and_why(user: User) -> None:
    reply = user.post("/v1/pods", NEW)
    events = user.get(f"/v1/pods/{reply.json['id']}/events").json["data"]
    assert {(e["type"], e["cause"]) for e in events} == {
        ("pod.created", "user"),
        ("pod.start_asked", "user"),
    }


def test_metrics_are_the_last_that_the_machine_sent(user: User) -> None:
    pod_id = a_running_pod(user)
    seen = user.get(f"/v1/pods/{pod_id}/metrics").json
    assert seen["metrics"]["cpu_percent"] == 12.5
    assert seen["workload"]["state"] == "serving"


def test_a_pod_without_a_machine_has_no_metrics(user: User) -> None:
    seen = user.get(f"/v1/pods/{a_stopped_pod(user)}/metrics").json
    assert seen == {"measured_at": None, "metrics": {}, "workload": {}}


def test_a_launching_pod_shows_a_machine_that_is_not_ready(user: User) -> None:
    pod_id = a_stopped_pod(user)
    put_on_machine(user.deployment, pod_id, MachineState.PROVISIONING, PodState.LAUNCHING)
    seen = user.get(f"/v1/pods/{pod_id}").json
    assert (seen["state"], seen["machine"]["state"]) == ("launching", "provisioning")
    assert seen["machine"]["heard_at"] is None


def test_things_of_other_accounts_do_not_exist(deployment: Deployment, user: User) -> None:
    pod_id = a_running_pod(user)
    pod = user.get(f"/v1/pods/{pod_id}").json
    stranger = deployment.an_account("stranger")
    paths = [f"/v1/pods/{pod_id}{rest}" for rest in ("", "/events", "/metrics", "/operations")]
    paths += [f"/v1/volumes/{pod['volume']['id']}{rest}" for rest in ("", "/saves")]
    paths += [f"/v1/environments/{pod['environment']['id']}{rest}" for rest in ("", "/captures")]
    replies = [stranger.get(path) for path in paths]
    replies += [
        stranger.post(f"/v1/pods/{pod_id}/{verb}", {}) for verb in ("start", "stop", "move")
    ]
    replies += [stranger.post(f"/v1/pods/{pod_id}/exec", {"script": "id"})]
    replies += [stranger.patch(f"/v1/pods/{pod_id}", {"name": "mine"})]
    replies += [stranger.delete(f"/v1/pods/{pod_id}")]
    replies += [stranger.post("/v1/pods", {**NEW, "volume": {"id": pod["volume"]["id"]}})]
    assert {(r.status, r.code) for r in replies} == {(404, "not_found")}
    assert stranger.get("/v1/pods").json["data"] == []
    assert stranger.get("/v1/volumes").json["data"] == []


@pytest.mark.parametrize(
    "pod_id", ["pod_1", "pod_" + "8" * 26, "vol_" + "0" * 26, "%00", "a" * 500]
)
def test_a_malformed_id_is_as_unknown_as_any_other(user: User, pod_id: str) -> None:
    reply = user.get(f"/v1/pods/{pod_id}")
    assert (reply.status, reply.code) == (404, "not_found")
    unknown = user.get(f"/v1/pods/pod_{'0' * 26}")
    assert (unknown.status, unknown.code) == (404, "not_found")


@pytest.mark.parametrize("name", ["gpu_count", "disk_gib", "min_reliability"])
@pytest.mark.parametrize("value", [True, False, "1"])
def test_a_number_is_neither_a_truth_nor_a_text(user: User, name: str, value: object) -> None:
    reply = user.post("/v1/pods", {**NEW, "requirements": {name: value}})
    assert (reply.status, reply.code) == (400, "invalid_request"), reply.text
