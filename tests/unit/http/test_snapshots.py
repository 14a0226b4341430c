"""Environments, volumes and their frozen states over HTTP."""

from dataclasses import replace
from datetime import timedelta

from podferry.domain.pod import Pod
from podferry.domain.volume import Volume
from podferry.ports.store import Update
from tests.unit.http.deployment import User
from tests.unit.http.running import a_running_pod, a_stopped_pod, an_open_snapshot, commit_snapshot


def test_a_pods_environment_and_volume_are_listed_and_seen(user: User) -> None:
    pod = user.get(f"/v1/pods/{a_running_pod(user)}").json
    [environment] = user.get("/v1/environments").json["data"]
    [volume] = user.get("/v1/volumes").json["data"]
    assert environment["id"] == pod["environment"]["id"]
    assert (volume["id"], volume["in_use_by"]) == (pod["volume"]["id"], pod["id"])
    assert user.get(f"/v1/environments/{environment['id']}").json == environment
    assert user.get(f"/v1/volumes/{volume['id']}").json == volume


def test_only_committed_snapshots_are_shown(user: User) -> None:
    deployment = user.deployment
    pod_id = a_running_pod(user)
    committed = commit_snapshot(deployment, an_open_snapshot(deployment, pod_id))
    an_open_snapshot(deployment, pod_id)
    path = f"/v1/volumes/{committed.subject_id}/saves"
    [save] = user.get(path).json["data"]
    assert (save["id"], save["root_sha256"]) == (committed.id, "a" * 64)
    assert save["summary"] == {"files": 3}
    assert user.get(path, query={"limit": 1}).status == 200


def test_an_environment_without_captures_has_an_empty_list(user: User) -> None:
    pod = user.get(f"/v1/pods/{a_stopped_pod(user)}").json
    captures = user.get(f"/v1/environments/{pod['environment']['id']}/captures").json
    assert captures == {"data": [], "next_cursor": None}


def test_promise_08_the_age_of_the_newest_save_is_shown(user: User) -> None:
    deployment = user.deployment
    pod_id = a_stopped_pod(user)
    store, clock = deployment.ports.store, deployment.ports.clock
    volume = store.get(Volume, store.get(Pod, pod_id).volume_id)
    store.commit(Update(replace(volume, saved_at=clock.now(), head="snap_1", size_bytes=5)))
    clock.advance(timedelta(seconds=90))
    seen = user.get(f"/v1/pods/{pod_id}").json["volume"]
    assert (seen["head"], seen["age_seconds"], seen["size_bytes"]) == ("snap_1", 90, 5)
    assert user.get(f"/v1/volumes/{volume.id}").json["age_seconds"] == 90
