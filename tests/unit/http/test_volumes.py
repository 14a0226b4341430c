"""Volumes over HTTP: history, forks, the trash."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from podferry.domain.pod import Pod
from podferry.domain.snapshot import Snapshot
from podferry.domain.storage import Charge
from podferry.domain.volume import Volume
from podferry.ports.store import Update
from podferry.services.storage import charged
from tests.unit.http.deployment import User
from tests.unit.http.running import a_running_pod, a_stopped_pod, an_open_snapshot, commit_snapshot


def a_saved_volume(user: User) -> tuple[str, Snapshot]:
    """A volume that no pod has, and its only save."""
    deployment = user.deployment
    pod_id = a_running_pod(user)
    save = commit_snapshot(deployment, an_open_snapshot(deployment, pod_id))
    volume = deployment.ports.store.get(Volume, save.subject_id)
    deployment.ports.store.commit(Update(replace(volume, lease=None, head=save.id)))
    return volume.id, save


def listed(user: User, **query: Any) -> list[str]:
    return [row["id"] for row in user.get("/v1/volumes", query=query).json["data"]]


def test_a_volume_is_given_another_name(user: User) -> None:
    volume_id, _ = a_saved_volume(user)
    etag = user.get(f"/v1/volumes/{volume_id}").headers["ETag"]
    reply = user.patch(f"/v1/volumes/{volume_id}", {"name": "models"}, headers={"If-Match": etag})
    assert (reply.status, reply.json["name"]) == (200, "models")
    late = user.patch(f"/v1/volumes/{volume_id}", {"name": "late"}, headers={"If-Match": etag})
    assert (late.status, late.code) == (412, "precondition_failed")
    assert user.patch(f"/v1/volumes/{volume_id}", {"head": "snap_x"}).status == 400
    assert user.get(f"/v1/volumes/{volume_id}").json["name"] == "models"


def test_a_fork_is_made_with_201_and_says_what_it_began_with(user: User) -> None:
    volume_id, save = a_saved_volume(user)
    reply = user.post(f"/v1/volumes/{volume_id}/fork", {"name": "try"})
    assert reply.status == 201
    fork = reply.json
    assert reply.headers["Location"] == f"/v1/volumes/{fork['id']}"
    assert (fork["name"], fork["head"]) == ("try", save.id)
    assert fork["forked_from"] == {"volume_id": volume_id, "snapshot_id": save.id}
    assert sorted(listed(user)) == sorted([volume_id, fork["id"]])
    assert user.get(f"/v1/volumes/{fork['id']}/saves").json["data"] == []


def test_promise_10_the_same_fork_asked_twice_is_one(user: User) -> None:
    volume_id, _ = a_saved_volume(user)
    key = {"Idempotency-Key": "one-fork"}
    first = user.post(f"/v1/volumes/{volume_id}/fork", headers=key)
    again = user.post(f"/v1/volumes/{volume_id}/fork", headers=key)
    assert first.json["id"] == again.json["id"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert len(listed(user)) == 2


def test_a_volume_is_taken_to_a_save_of_its_own_only(user: User) -> None:
    volume_id, save = a_saved_volume(user)
    other_id, other = a_saved_volume(user)
    reply = user.post(f"/v1/volumes/{volume_id}/restore", {"snapshot_id": save.id})
    assert (reply.status, reply.json["head"]) == (200, save.id)
    refused = user.post(f"/v1/volumes/{volume_id}/restore", {"snapshot_id": other.id})
    assert (refused.status, refused.code) == (404, "not_found")
    assert user.get(f"/v1/volumes/{other_id}").json["head"] == other.id


def test_promise_05_a_restore_of_a_volume_in_use_is_409_and_names_its_pod(user: User) -> None:
    deployment = user.deployment
    pod_id = a_running_pod(user)
    save = commit_snapshot(deployment, an_open_snapshot(deployment, pod_id))
    path = f"/v1/volumes/{save.subject_id}"
    for reply in (user.post(f"{path}/restore", {"snapshot_id": save.id}), user.delete(path)):
        assert (reply.status, reply.code) == (409, "volume_busy")
        assert pod_id in reply.json["detail"]


def test_a_deleted_volume_is_out_of_the_list_and_comes_back(user: User) -> None:
    volume_id, _ = a_saved_volume(user)
    path = f"/v1/volumes/{volume_id}"
    assert user.delete(path).status == 204
    assert user.delete(path).status == 204
    assert (listed(user), listed(user, deleted="true")) == ([], [volume_id])
    seen = user.get(path).json
    assert seen["deleted_at"] < seen["gone_from"]
    assert user.post(f"{path}/fork").code == "wrong_state"
    assert user.post(f"{path}/undelete").json["deleted_at"] is None
    assert (listed(user), listed(user, deleted="true")) == ([volume_id], [])
    kinds = [event["type"] for event in user.get(f"{path}/events").json["data"]]
    assert kinds == ["volume.undeleted", "volume.deleted"]


def test_a_volume_that_is_gone_for_good_does_not_exist(user: User) -> None:
    volume_id, save = a_saved_volume(user)
    store, now = user.deployment.ports.store, user.deployment.ports.clock.now()
    volume = store.get(Volume, volume_id)
    store.commit(Update(replace(volume, trashed_at=now, purged_at=now, head=None)))
    path = f"/v1/volumes/{volume_id}"
    assert listed(user, deleted="true") == []
    asked = [
        user.get(path),
        user.get(f"{path}/saves"),
        user.get(f"{path}/events"),
        user.patch(path, {"name": "x"}),
        user.delete(path),
        user.post(f"{path}/undelete"),
        user.post(f"{path}/fork"),
        user.post(f"{path}/restore", {"snapshot_id": save.id}),
    ]
    assert [reply.status for reply in asked] == [404] * len(asked)


@pytest.mark.parametrize("what", ["restore", "fork", "undelete"])
def test_promise_12_another_accounts_volume_does_not_exist(user: User, what: str) -> None:
    volume_id, save = a_saved_volume(user)
    stranger = user.deployment.an_account()
    body = {"snapshot_id": save.id} if what == "restore" else None
    assert stranger.post(f"/v1/volumes/{volume_id}/{what}", body).status == 404
    assert stranger.patch(f"/v1/volumes/{volume_id}", {"name": "mine"}).status == 404
    assert stranger.delete(f"/v1/volumes/{volume_id}").status == 404
    assert user.get(f"/v1/volumes/{volume_id}").json["name"] == "trainer"


def test_a_pod_is_not_made_with_a_volume_in_the_trash(user: User) -> None:
    pod_id = a_stopped_pod(user)
    volume_id = user.deployment.ports.store.get(Pod, pod_id).volume_id
    user.delete(f"/v1/volumes/{volume_id}")
    body = {"name": "x", "spec": {"image": "debian:12"}, "volume": {"id": volume_id}}
    reply = user.post("/v1/pods", body)
    assert (reply.status, reply.code) == (409, "wrong_state")
    assert user.post(f"/v1/pods/{pod_id}/start").code == "wrong_state"


def test_a_pod_names_its_volume_and_how_it_uses_it(user: User) -> None:
    volume_id, _ = a_saved_volume(user)
    body = {"name": "reads", "spec": {"image": "debian:12"}}
    made = user.post("/v1/pods", {**body, "volume": {"id": volume_id, "read_only": True}})
    assert made.status == 202
    pod = made.json
    assert (pod["volume"]["id"], pod["volume"]["read_only"]) == (volume_id, True)
    seen = user.get(f"/v1/volumes/{volume_id}").json
    assert (seen["read_by"], seen["in_use_by"]) == ([pod["id"]], None)
    refused = user.delete(f"/v1/volumes/{volume_id}")
    assert (refused.status, refused.code) == (409, "volume_busy")
    assert pod["id"] in refused.json["detail"]


def test_a_stopped_pod_is_given_another_volume_and_a_running_one_is_not(user: User) -> None:
    volume_id, _ = a_saved_volume(user)
    stopped, running = a_stopped_pod(user), a_running_pod(user)
    reply = user.patch(f"/v1/pods/{stopped}", {"volume": {"id": volume_id}})
    assert (reply.status, reply.json["volume"]["id"]) == (200, volume_id)
    assert reply.json["volume"]["read_only"] is False
    refused = user.patch(f"/v1/pods/{running}", {"volume": {"id": volume_id}})
    assert (refused.status, refused.code) == (409, "wrong_state")


def test_promise_05_a_start_with_a_volume_in_use_is_409_and_names_its_pod(user: User) -> None:
    volume_id, _ = a_saved_volume(user)
    body = {"name": "writes", "spec": {"image": "debian:12"}, "volume": {"id": volume_id}}
    holder = user.post("/v1/pods", body).json["id"]
    stopped = a_stopped_pod(user)
    refused = user.post(f"/v1/pods/{stopped}/start", {"volume": {"id": volume_id}})
    assert (refused.status, refused.code) == (409, "volume_busy")
    assert holder in refused.json["detail"]
    assert user.get(f"/v1/pods/{stopped}").json["volume"]["id"] != volume_id
    reader = {"volume": {"id": volume_id, "read_only": True}}
    assert user.post(f"/v1/pods/{stopped}/start", reader).status == 202
    assert user.get(f"/v1/pods/{stopped}").json["volume"]["id"] == volume_id


def test_what_is_stored_is_shown_with_volumes_and_summed_up_for_the_account(user: User) -> None:
    volume_id, save = a_saved_volume(user)
    deployment = user.deployment
    counted = replace(save, revision=deployment.ports.store.get(Snapshot, save.id).revision)
    charge = Charge(to=volume_id, bytes=4096)
    charged_save, sums = charged(deployment.use.records, counted, charge)
    deployment.ports.store.commit(Update(charged_save), *sums)
    environment = user.get("/v1/environments").json["data"][0]
    deployment.ports.clock.advance(timedelta(seconds=10))
    assert user.get(f"/v1/volumes/{volume_id}").json["stored_bytes"] == 4096
    [row] = user.get("/v1/volumes").json["data"]
    assert row["stored_bytes"] == 4096
    assert environment["stored_bytes"] == 0
    assert user.get(f"/v1/environments/{environment['id']}").json["stored_bytes"] == 0
    assert user.get("/v1/account/storage").json == {
        "stored_bytes": 4096,
        "volumes_bytes": 4096,
        "environments_bytes": 0,
        "byte_seconds": 40960,
    }
