"""Saves over HTTP: asked for by users and by agents, and what is shown of them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from podferry.domain.pod import Pod
from podferry.domain.saving import SaveKind
from podferry.domain.snapshot import Snapshot
from podferry.domain.volume import Volume
from podferry.ports.store import Update
from tests.unit.http.deployment import Deployment, User
from tests.unit.http.running import (
    a_running_pod,
    a_stopped_pod,
    commit_snapshot,
    machine_of,
    machine_token,
)

NEW = {"name": "trainer", "spec": {"image": "debian:12"}, "start": False}


def agent_asks(deployment: Deployment, pod_id: str) -> dict[str, Any]:
    token = machine_token(machine_of(deployment, pod_id).id)
    reply = deployment.call("POST", "/agent/v1/snapshots", {}, token=token)
    assert reply.status == 200
    return dict(reply.json)


def test_a_save_answers_202_with_an_operation_that_ends_with_it(user: User) -> None:
    pod_id = a_running_pod(user)
    reply = user.post(f"/v1/pods/{pod_id}/save", {"label": "before the experiment"})
    assert (reply.status, reply.json["kind"], reply.json["state"]) == (202, "save", "running")
    assert reply.json["label"] == "before the experiment"
    assert reply.headers["Location"] == f"/v1/operations/{reply.json['id']}"
    assert user.get(f"/v1/pods/{pod_id}").json["operation"] is None


def test_a_save_needs_no_body(user: User) -> None:
    reply = user.post(f"/v1/pods/{a_running_pod(user)}/save")
    assert (reply.status, reply.json["label"]) == (202, None)


def test_a_save_that_is_asked_for_twice_with_one_key_is_one_save(user: User) -> None:
    pod_id = a_running_pod(user)
    replies = [
        user.post(f"/v1/pods/{pod_id}/save", {}, headers={"Idempotency-Key": "one"})
        for _ in range(2)
    ]
    assert len({reply.json["id"] for reply in replies}) == 1
    operations = user.get(f"/v1/pods/{pod_id}/operations").json["data"]
    assert [operation["kind"] for operation in operations] == ["save"]


def test_a_pod_that_does_not_run_is_not_saved(user: User) -> None:
    reply = user.post(f"/v1/pods/{a_stopped_pod(user)}/save")
    assert (reply.status, reply.code) == (409, "wrong_state")
    assert "only a running pod can be saved" in reply.json["detail"]


def test_a_save_can_be_cancelled(user: User) -> None:
    operation = user.post(f"/v1/pods/{a_running_pod(user)}/save").json
    cancelled = user.post(f"/v1/operations/{operation['id']}/cancel")
    assert (cancelled.status, cancelled.json["state"]) == (200, "cancelled")


@pytest.mark.parametrize("label", ["", "x" * 65, "two\nlines", 7])
def test_a_label_is_one_short_line(user: User, label: object) -> None:
    reply = user.post(f"/v1/pods/{a_running_pod(user)}/save", {"label": label})
    assert (reply.status, reply.json["errors"][0]["where"]) == (400, "/label")


@pytest.mark.parametrize("interval", [0, 59, 3601, "300", None, 60.5])
def test_an_interval_is_a_minute_to_an_hour(user: User, interval: object) -> None:
    made = user.post("/v1/pods", {**NEW, "save_interval_seconds": interval})
    changed = user.patch(f"/v1/pods/{a_stopped_pod(user)}", {"save_interval_seconds": interval})
    for reply in (made, changed):
        assert reply.json["errors"][0]["where"] == "/save_interval_seconds"


def test_an_interval_is_set_when_a_pod_is_made_and_can_be_changed(user: User) -> None:
    assert user.get(f"/v1/pods/{a_stopped_pod(user)}").json["save_interval_seconds"] == 300
    pod_id = a_stopped_pod(user, save_interval_seconds=3600)
    assert user.get(f"/v1/pods/{pod_id}").json["save_interval_seconds"] == 3600
    changed = user.patch(f"/v1/pods/{pod_id}", {"save_interval_seconds": 60})
    assert changed.json["save_interval_seconds"] == 60
    assert user.patch(f"/v1/pods/{pod_id}", {"name": "b"}).json["save_interval_seconds"] == 60


def test_an_agent_is_told_when_its_first_save_is_due_and_then_gets_it(user: User) -> None:
    deployment = user.deployment
    pod_id = a_running_pod(user)
    early = agent_asks(deployment, pod_id)
    assert (early["command"], early["in_seconds"]) == (None, 390)
    deployment.ports.clock.advance(timedelta(seconds=390))
    first, again = agent_asks(deployment, pod_id), agent_asks(deployment, pod_id)
    assert first["command"] == again["command"]
    arguments = first["command"]["args"]
    assert (arguments["kind"], arguments["mode"]) == ("volume", "live")


def test_promise_08_a_pod_shows_age_and_size_of_its_last_save(user: User) -> None:
    deployment = user.deployment
    pod_id = a_running_pod(user)
    seen = user.get(f"/v1/pods/{pod_id}").json
    assert (seen["save_state"], seen["last_save"], seen["save_error"]) == (
        "never_saved",
        None,
        None,
    )
    save = a_save(deployment, pod_id)
    deployment.ports.clock.advance(timedelta(seconds=90))
    seen = user.get(f"/v1/pods/{pod_id}").json
    assert seen["save_state"] == "saved"
    assert seen["last_save"] == {
        "snapshot_id": save.id,
        "kind": "background",
        "at": seen["volume"]["saved_at"],
        "age_seconds": 90,
        "bytes": 10,
        "files": 3,
        "stored_bytes": 4,
        "torn": ["/workspace/a"],
        "is_partial": False,
    }


def test_saves_are_listed_with_what_made_them(user: User) -> None:
    pod_id = a_running_pod(user)
    save = a_save(user.deployment, pod_id)
    [seen] = user.get(f"/v1/volumes/{save.subject_id}/saves").json["data"]
    shown = {
        name: seen[name] for name in ("kind", "label", "size_bytes", "files", "torn", "is_partial")
    }
    assert shown == {
        "kind": "background",
        "label": None,
        "size_bytes": 10,
        "files": 3,
        "torn": ["/workspace/a"],
        "is_partial": False,
    }
    assert seen["operation_id"] is None


def a_save(deployment: Deployment, pod_id: str) -> Snapshot:
    """A background save that has become the head."""
    store, clock = deployment.ports.store, deployment.ports.clock
    clock.advance(timedelta(seconds=390))
    opened = agent_asks(deployment, pod_id)["command"]["args"]["snapshot_id"]
    summary = {"bytes": 10, "files": 3, "stored_bytes": 4, "torn": ["/workspace/a"]}
    commit_snapshot(deployment, store.get(Snapshot, opened))
    save = replace(store.get(Snapshot, opened), summary=summary)
    volume = store.get(Volume, store.get(Pod, pod_id).volume_id)
    store.commit(Update(save), Update(replace(volume, head=save.id, saved_at=clock.now())))
    assert save.save_kind == SaveKind.BACKGROUND
    return store.get(Snapshot, save.id)
