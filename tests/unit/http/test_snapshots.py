"""Environments, volumes and their frozen states over HTTP."""

from dataclasses import replace
from datetime import timedelta

from podferry.domain.pod import Pod
from podferry.domain.proof import Proof, ProofMode
from podferry.domain.snapshot import Snapshot
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


def test_a_verification_answers_202_with_an_operation(user: User) -> None:
    deployment = user.deployment
    saved = commit_snapshot(deployment, an_open_snapshot(deployment, a_running_pod(user)))
    reply = user.post(f"/v1/snapshots/{saved.id}/verify", {"mode": "full"})
    assert (reply.status, reply.json["kind"], reply.json["state"]) == (202, "verify", "running")
    assert reply.headers["Location"] == f"/v1/operations/{reply.json['id']}"
    again = user.post(f"/v1/snapshots/{saved.id}/verify")
    assert (again.status, again.code) == (409, "wrong_state")


def test_a_snapshot_that_is_not_there_or_not_committed_is_not_verified(user: User) -> None:
    deployment = user.deployment
    unfinished = an_open_snapshot(deployment, a_running_pod(user))
    for snapshot_id in (unfinished.id, "snap_0" + "1" * 25):
        reply = user.post(f"/v1/snapshots/{snapshot_id}/verify")
        assert (reply.status, reply.code) == (404, "not_found")


def test_a_save_shows_when_it_was_last_proven_restorable(user: User) -> None:
    deployment = user.deployment
    saved = commit_snapshot(deployment, an_open_snapshot(deployment, a_running_pod(user)))
    path = f"/v1/volumes/{saved.subject_id}/saves"
    [save] = user.get(path).json["data"]
    assert (save["last_proven_at"], save["last_proof"]) == (None, None)
    proof = Proof(
        at=deployment.ports.clock.now(),
        mode=ProofMode.SAMPLE,
        objects=9,
        objects_read=3,
        bytes_read=7,
    )
    store = deployment.ports.store
    store.commit(Update(replace(store.get(Snapshot, saved.id), proof=proof)))
    [save] = user.get(path).json["data"]
    assert save["last_proven_at"] == "2026-11-30T12:00:00Z"
    assert save["last_proof"] == {
        "mode": "sample",
        "objects": 9,
        "objects_read": 3,
        "bytes_read": 7,
    }
