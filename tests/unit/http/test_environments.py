"""Keeping, listing, launching from, going back to and deleting versions over HTTP."""

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from podferry.domain.pod import Pod
from podferry.domain.snapshot import (
    Snapshot,
    SnapshotKind,
    SnapshotState,
    StoredObject,
    object_key,
)
from podferry.domain.volume import Environment
from podferry.ports.store import Create, Update
from tests.unit.http.deployment import User
from tests.unit.http.running import IMAGE, a_running_pod, a_stopped_pod


def captured(user: User, pod_id: str, content: str = "0") -> str:
    """Give the pod a committed capture of its environment, as a stop does; its id."""
    ports, use = user.deployment.ports, user.deployment.use
    pod = ports.store.get(Pod, pod_id)
    environment = ports.store.get(Environment, pod.environment_id)
    now = ports.clock.now()
    snapshot = Snapshot(
        id=use.records.new_id(Snapshot),
        account_id=pod.account_id,
        created_at=now,
        kind=SnapshotKind.ENVIRONMENT,
        subject_id=environment.id,
        pod_id=pod.id,
        machine_id="mach_none",
        epoch=1,
        operation_id="op_none",
        parent_id=environment.head,
        state=SnapshotState.COMMITTED,
        committed_at=now,
        summary={"bytes": 7},
    )
    root = {
        "format": 1,
        "kind": snapshot.kind,
        "snapshot_id": snapshot.id,
        "parent": snapshot.parent_id,
        "pages": [],
        "packs": [{"sha256": content * 64, "size": 7}],
        "counts": {"entries": 1, "files": 1, "bytes": 7},
    }
    body = json.dumps(root).encode()
    stored = StoredObject(name="root", size=len(body), sha256=sha256(body).hexdigest())
    ports.objects.put(snapshot.kind, object_key(pod.account_id, snapshot.id, "root"), body)
    ports.store.commit(
        Create(replace(snapshot, root=stored)),
        Update(replace(environment, head=snapshot.id, captured_at=now, size_bytes=7)),
        Update(replace(pod, environment_head=snapshot.id)),
    )
    return snapshot.id


def kept(user: User, pod_id: str, content: str = "0", **body: Any) -> Any:
    captured(user, pod_id, content)
    reply = user.post(f"/v1/pods/{pod_id}/keep", body)
    assert reply.status in {200, 201}, reply.text
    return reply.json


def environment_of(user: User, pod_id: str) -> str:
    return str(user.get(f"/v1/pods/{pod_id}").json["environment"]["id"])


def test_a_kept_environment_is_listed_with_its_versions(user: User) -> None:
    pod_id = a_stopped_pod(user)
    snapshot_id = captured(user, pod_id)
    reply = user.post(f"/v1/pods/{pod_id}/keep", {"note": "torch 2.9"})
    path = f"/v1/environments/{environment_of(user, pod_id)}"
    assert (reply.status, reply.headers["Location"]) == (201, f"{path}/versions/1")
    assert reply.json["snapshot_id"] == snapshot_id
    assert (reply.json["note"], reply.json["image"]) == ("torch 2.9", IMAGE)
    assert user.get(f"{path}/versions").json["data"] == [reply.json]
    assert user.get(f"{path}/versions/1").json == reply.json
    assert user.get(path).json["versions"] == 1
    [capture] = user.get(f"{path}/captures").json["data"]
    assert capture["version"] == 1


def test_what_is_a_version_already_is_answered_with_200(user: User) -> None:
    pod_id = a_stopped_pod(user)
    first = kept(user, pod_id)
    again = user.post(f"/v1/pods/{pod_id}/keep")
    assert (again.status, again.json) == (200, first)
    assert kept(user, pod_id)["number"] == 1
    assert kept(user, pod_id, content="1")["number"] == 2


def test_promise_10_a_keep_with_the_same_key_makes_one_version(user: User) -> None:
    pod_id = a_stopped_pod(user)
    captured(user, pod_id)
    headers = {"Idempotency-Key": "keep-1"}
    replies = [user.post(f"/v1/pods/{pod_id}/keep", {}, headers=headers) for _ in range(2)]
    assert [reply.status for reply in replies] == [201, 201]
    assert replies[0].json == replies[1].json


def test_a_running_pod_is_not_kept(user: User) -> None:
    reply = user.post(f"/v1/pods/{a_running_pod(user)}/keep")
    assert (reply.status, reply.code) == (409, "wrong_state")


def test_a_root_that_is_missing_is_no_reason_to_keep_twice(user: User) -> None:
    pod_id = a_stopped_pod(user)
    kept(user, pod_id)
    snapshot_id = captured(user, pod_id)
    key = object_key(user.account.id, snapshot_id, "root")
    user.deployment.ports.objects.remove(SnapshotKind.ENVIRONMENT, key)
    reply = user.post(f"/v1/pods/{pod_id}/keep")
    assert (reply.status, reply.code) == (409, "snapshot_missing")


def test_a_pod_is_launched_from_a_version(user: User) -> None:
    first = a_stopped_pod(user)
    version = kept(user, first)
    base = {"id": version["environment_id"], "version": 1}
    reply = user.post("/v1/pods", {"name": "second", "environment": base, "start": False})
    assert reply.status == 201, reply.text
    second = reply.json
    assert second["environment"]["head"] == version["snapshot_id"]
    assert second["spec"]["image"] == IMAGE
    made_from = user.get(f"/v1/environments/{second['environment']['id']}").json["made_from"]
    assert made_from == base


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x"},
        {"name": "x", "spec": {"image": "a"}, "environment": {"id": "env_" + "0" * 26, "version": 1}},
        {"name": "x", "environment": {"id": "env_" + "0" * 26, "version": 0}},
        {"name": "x", "environment": {"id": "pod_" + "0" * 26, "version": 1}},
    ],
)  # fmt: skip
def test_a_pod_begins_as_an_image_or_as_a_version(user: User, body: Any) -> None:
    assert user.post("/v1/pods", body).code == "invalid_request"


def test_versions_of_another_account_do_not_exist(user: User) -> None:
    pod_id = a_stopped_pod(user)
    version = kept(user, pod_id)
    other = user.deployment.an_account("other")
    base = {"id": version["environment_id"], "version": 1}
    assert other.post("/v1/pods", {"name": "x", "environment": base}).status == 404
    path = f"/v1/environments/{version['environment_id']}"
    for reply in (
        other.get(f"{path}/versions"),
        other.get(f"{path}/versions/1"),
        other.patch(path, {"name": "mine"}),
        other.delete(path),
        other.post(f"/v1/pods/{pod_id}/keep", {}),
        other.post(f"/v1/pods/{pod_id}/rollback", {"version": 1}),
    ):
        assert (reply.status, reply.code) == (404, "not_found")


def test_going_back_shows_the_new_head(user: User) -> None:
    pod_id = a_stopped_pod(user)
    version = kept(user, pod_id)
    later = captured(user, pod_id, "1")
    reply = user.post(f"/v1/pods/{pod_id}/rollback", {"version": 1})
    assert (reply.status, reply.json["environment"]["head"]) == (200, version["snapshot_id"])
    back = user.post(f"/v1/pods/{pod_id}/rollback", {"snapshot_id": later})
    assert back.json["environment"]["head"] == later
    [newest, _] = user.get(f"/v1/environments/{version['environment_id']}/versions").json["data"]
    assert newest["snapshot_id"] == later


@pytest.mark.parametrize("body", [{}, {"version": 1, "snapshot_id": "snap_" + "0" * 26}])
def test_one_place_to_go_back_to_is_named(user: User, body: Any) -> None:
    reply = user.post(f"/v1/pods/{a_stopped_pod(user)}/rollback", body)
    assert (reply.status, reply.code) == (400, "invalid_request")


def test_an_environment_is_renamed(user: User) -> None:
    path = f"/v1/environments/{environment_of(user, a_stopped_pod(user))}"
    seen = user.get(path)
    renamed = user.patch(path, {"name": "tools"}, headers={"If-Match": seen.headers["ETag"]})
    assert (renamed.status, renamed.json["name"]) == (200, "tools")
    late = user.patch(path, {"name": "other"}, headers={"If-Match": seen.headers["ETag"]})
    assert (late.status, late.code) == (412, "precondition_failed")
    assert user.get(path).json["name"] == "tools"


def test_a_deleted_environment_is_gone_with_its_versions(user: User) -> None:
    pod_id = a_stopped_pod(user)
    path = f"/v1/environments/{kept(user, pod_id)['environment_id']}"
    refused = user.delete(path)
    assert (refused.status, refused.code) == (409, "wrong_state")
    assert pod_id in refused.json["detail"]
    user.delete(f"/v1/pods/{pod_id}")
    assert [user.delete(path).status for _ in range(2)] == [204, 204]
    assert user.get(path).status == user.get(f"{path}/versions/1").status == 404
    assert user.get("/v1/environments").json["data"] == []
    assert user.get(f"/v1/pods/{pod_id}").status == 200
