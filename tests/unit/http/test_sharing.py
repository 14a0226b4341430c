"""Sharing a version, deciding, accepting and revoking over HTTP."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from podferry.domain.share import Finding, Hit, Share, ShareState, finding_id
from podferry.domain.snapshot import Snapshot, SnapshotKind, StoredObject, object_key
from podferry.ports.store import Create, Update
from podferry_agent.snapshot.manifest import Root
from tests.unit.http.deployment import Deployment, User
from tests.unit.http.running import a_stopped_pod
from tests.unit.http.test_environments import captured, environment_of


@pytest.fixture
def other(deployment: Deployment) -> User:
    return deployment.an_account("other")


def a_kept_pod(user: User) -> str:
    """A stopped pod with a version that can be read; its contents are empty."""
    ports = user.deployment.ports
    pod_id = a_stopped_pod(user)
    snapshot_id = captured(user, pod_id)
    snapshot = ports.store.get(Snapshot, snapshot_id)
    counts = dict.fromkeys(("entries", "files", "directories", "bytes", "torn", "unreadable"), 0)
    root = Root("environment", snapshot_id, snapshot.parent_id, [], [], counts)
    body = root.encode()
    key = object_key(snapshot.account_id, snapshot_id, "root")
    ports.objects.put(SnapshotKind.ENVIRONMENT, key, body)
    stored = StoredObject(name="root", size=len(body), sha256=sha256(body).hexdigest())
    ports.store.commit(Update(replace(snapshot, root=stored)))
    assert user.post(f"/v1/pods/{pod_id}/keep").status == 201
    return pod_id


def share_of(user: User, pod_id: str, **body: Any) -> Any:
    path = f"/v1/environments/{environment_of(user, pod_id)}/versions/1/share"
    reply = user.post(path, {"link": True, **body})
    assert reply.status == 202, reply.text
    return reply.json


def work(user: User, operation_id: str) -> None:
    """Run the workflow's loop."""
    state: Any = {"is_done": False, "cursor": None}
    while not state["is_done"]:
        state = user.deployment.use.run_share.run(operation_id, state["cursor"])


def a_ready_share(user: User) -> Any:
    made = share_of(user, a_kept_pod(user))
    work(user, made["share"]["operation_id"])
    return made


def test_a_share_is_scanned_sealed_accepted_and_revoked(user: User, other: User) -> None:
    made = a_ready_share(user)
    share_id, token = made["share"]["id"], made["token"]
    assert token.startswith("pfs_")
    seen = user.get(f"/v1/shares/{share_id}").json
    assert (seen["state"], seen["undecided"], seen["has_link"]) == ("shared", 0, True)
    assert len(seen["receipt"]["manifest_sha256"]) in {0, 64}
    reply = other.post(f"/v1/shares/{share_id}/accept", {"token": token, "name": "mine"})
    assert reply.status == 202, reply.text
    work(other, reply.json["id"])
    result = other.get(f"/v1/operations/{reply.json['id']}").json["result"]
    environment = other.get(f"/v1/environments/{result['environment_id']}").json
    assert (environment["name"], environment["versions"]) == ("mine", 1)
    assert other.get(f"/v1/environments/{environment['id']}/versions/1").status == 200
    assert user.delete(f"/v1/shares/{share_id}").status == 204
    refused = other.post(f"/v1/shares/{share_id}/accept", {"token": token})
    assert (refused.status, refused.json["code"]) == (409, "wrong_state")
    assert user.get(f"/v1/shares/{share_id}").json["accepts"] == 1
    pod_id = user.get("/v1/pods").json["data"][0]["id"]
    told = [one["type"] for one in user.get(f"/v1/pods/{pod_id}/events").json["data"]]
    assert {one.partition("share_")[2] for one in told if "share_" in one} == {
        "scanning",
        "sealing",
        "shared",
        "accepted",
        "revoked",
    }


def test_a_pod_is_kept_and_shared_in_one_request(user: User) -> None:
    pod_id = a_kept_pod(user)
    reply = user.post(f"/v1/pods/{pod_id}/share", {"link": True})
    assert (reply.status, reply.json["share"]["version"]) == (202, 1)
    listed = user.get("/v1/shares").json["data"]
    assert [one["id"] for one in listed] == [reply.json["share"]["id"]]


def test_the_secret_of_a_link_is_shown_once(user: User) -> None:
    path = f"/v1/environments/{environment_of(user, a_kept_pod(user))}/versions/1/share"
    headers = {"Idempotency-Key": "once"}
    replies = [user.post(path, {"link": True}, headers=headers) for _ in range(2)]
    assert [reply.json["token"] is None for reply in replies] == [False, True]
    assert replies[0].json["share"]["id"] == replies[1].json["share"]["id"]
    assert replies[0].json["token"] not in repr(user.get("/v1/shares").json)


def test_findings_are_listed_and_decided(user: User) -> None:
    made = a_ready_share(user)
    ports = user.deployment.ports
    share = ports.store.get(Share, made["share"]["id"])
    finding = Finding(
        id=finding_id(share.id, "/root/a.py"),
        account_id=share.account_id,
        created_at=share.created_at,
        share_id=share.id,
        path="/root/a.py",
        size=9,
        hits=(Hit(line=3, rule="jwt", kind="token"),),
    )
    waiting = replace(share, state=ShareState.NEEDS_DECISION, findings=1, undecided=1)
    ports.store.commit(Create(finding), Update(waiting))
    (listed,) = user.get(f"/v1/shares/{share.id}/findings").json["data"]
    assert listed["hits"] == [{"line": 3, "rule": "jwt", "kind": "token", "member": None}]
    path = f"/v1/shares/{share.id}/decisions"
    wrong = user.post(path, {"decisions": [{"path": "/b", "decision": "accept"}]})
    assert (wrong.status, wrong.json["errors"][0]["where"]) == (400, "/decisions/0/path")
    decided = user.post(path, {"decisions": [{"path": "/root/**", "decision": "accept"}]})
    assert (decided.status, decided.json["state"]) == (200, "sealing")
    work(user, decided.json["operation_id"])
    receipt = user.get(f"/v1/shares/{share.id}").json["receipt"]
    assert (receipt["accepted"], receipt["accepted_files"]) == (["/root/a.py"], 1)


def test_shares_of_others_are_not_found(user: User, other: User) -> None:
    made = a_ready_share(user)
    path = f"/v1/shares/{made['share']['id']}"
    version = f"/v1/environments/{made['share']['environment_id']}/versions/1/share"
    decision = {"decisions": [{"path": "/a", "decision": "accept"}]}
    replies = [
        other.get(path),
        other.get(f"{path}/findings"),
        other.post(f"{path}/decisions", decision),
        other.delete(path),
        other.post(f"{path}/accept", {"token": "pfs_guessed"}),
        other.post(f"{path}/accept"),
        other.post(version, {"link": True}),
    ]
    assert [reply.status for reply in replies] == [404] * len(replies)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"accounts": ["acct_0000000000000000000000000z"]},
        {"accounts": ["me"]},
        {"link": True, "expires_at": "2001-01-01T00:00:00Z"},
        {"link": True, "expires_at": "2101-01-01T00:00:00"},
        {"link": "yes"},
    ],
)
def test_a_share_with_nobody_or_without_a_future_is_refused(user: User, body: Any) -> None:
    path = f"/v1/environments/{environment_of(user, a_kept_pod(user))}/versions/1/share"
    assert user.post(path, body).status == 400


def test_an_accept_can_be_cancelled_and_belongs_to_no_pod(user: User, other: User) -> None:
    made = a_ready_share(user)
    path = f"/v1/shares/{made['share']['id']}/accept"
    operation = other.post(path, {"token": made["token"]}).json
    assert operation["pod_id"] == ""
    assert other.post(f"/v1/operations/{operation['id']}/cancel").status == 202
    assert other.get(f"/v1/operations/{operation['id']}").json["is_cancel_asked"]
