"""The same request twice is one effect and one answer (promise 10)."""

from datetime import timedelta

import pytest

from podferry.domain.errors import InternalError
from podferry.domain.pod import Pod
from podferry.domain.reply import Reply as StoredReply
from podferry.ports.store import Change, Update
from tests.unit.http.deployment import OPERATOR, Deployment, User
from tests.unit.http.running import a_stopped_pod

NEW = {"name": "trainer", "spec": {"image": "debian:12"}}
KEY = {"Idempotency-Key": "order 66"}


def pods_of(user: User) -> list[str]:
    return [pod["id"] for pod in user.get("/v1/pods").json["data"]]


def test_promise_10_the_same_key_twice_is_one_pod_and_one_answer(user: User) -> None:
    first = user.post("/v1/pods", NEW, headers=KEY)
    second = user.post("/v1/pods", NEW, headers=KEY)
    assert (second.status, second.text) == (first.status, first.text)
    assert second.headers["Location"] == first.headers["Location"]
    assert second.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert pods_of(user) == [first.json["id"]]
    assert len(user.deployment.ports.workflows.starts) == 1


def test_a_start_with_the_same_key_does_not_complain_that_the_pod_is_started(user: User) -> None:
    pod_id = a_stopped_pod(user)
    replies = [user.post(f"/v1/pods/{pod_id}/start", headers=KEY) for _ in range(3)]
    assert {reply.status for reply in replies} == {202}
    assert len({reply.json["id"] for reply in replies}) == 1


def test_the_same_key_with_another_body_is_refused(user: User) -> None:
    user.post("/v1/pods", NEW, headers=KEY)
    reply = user.post("/v1/pods", {**NEW, "name": "other"}, headers=KEY)
    assert (reply.status, reply.code) == (422, "idempotency_key_reused")
    assert len(pods_of(user)) == 1


def test_a_refused_request_leaves_its_key_free(user: User) -> None:
    pod_id = user.post("/v1/pods", NEW).json["id"]
    operation_id = user.get(f"/v1/pods/{pod_id}").json["operation"]["id"]
    assert user.post(f"/v1/pods/{pod_id}/stop", headers=KEY).status == 409
    assert user.post(f"/v1/operations/{operation_id}/cancel", headers=KEY).status == 202
    assert user.post(f"/v1/pods/{pod_id}/stop", headers=KEY).status == 409


def test_keys_of_other_accounts_are_other_keys(deployment: Deployment, user: User) -> None:
    stranger = deployment.an_account("stranger")
    replies = [someone.post("/v1/pods", NEW, headers=KEY) for someone in (user, stranger)]
    assert replies[0].json["id"] != replies[1].json["id"]


def test_a_key_is_free_again_after_a_day(user: User) -> None:
    first = user.post("/v1/pods", NEW, headers=KEY)
    user.deployment.ports.clock.advance(timedelta(hours=24))
    second = user.post("/v1/pods", NEW, headers=KEY)
    assert second.json["id"] != first.json["id"]
    assert user.post("/v1/pods", NEW, headers=KEY).json["id"] == second.json["id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there", "naïve"])
def test_a_key_has_1_to_255_printable_characters(user: User, key: str) -> None:
    reply = user.post("/v1/pods", NEW, headers={"Idempotency-Key": key})
    assert (reply.status, reply.json["errors"][0]["where"]) == (400, "header Idempotency-Key")


def test_a_key_is_shown_once_and_never_stored(user: User) -> None:
    body = {"name": "ci", "scopes": ["pods:read"]}
    first = user.post("/v1/keys", body, headers=KEY)
    second = user.post("/v1/keys", body, headers=KEY)
    assert user.deployment.call("GET", "/v1/pods", token=first.json["token"]).status == 200
    assert second.json == {**first.json, "token": None}
    assert first.json["token"] not in str(user.deployment.ports.store.__dict__)


def test_an_accounts_first_key_is_not_stored_either(deployment: Deployment) -> None:
    replies = [
        deployment.call("POST", "/v1/accounts", {"name": "a"}, token=OPERATOR, headers=KEY)
        for _ in range(2)
    ]
    assert replies[1].json == {**replies[0].json, "token": None}
    assert replies[0].json["token"] not in str(deployment.ports.store.__dict__)


def test_while_the_first_request_is_at_work_the_second_is_told_to_ask_again(user: User) -> None:
    refuse_to_store_answers(user.deployment)
    first = user.post("/v1/pods", NEW, headers=KEY)
    second = user.post("/v1/pods", NEW, headers=KEY)
    assert first.status == 202
    assert (second.status, second.code) == (409, "request_in_progress")
    assert second.json["retryable"] is True
    assert int(second.headers["Retry-After"]) >= 1


def test_an_answer_that_was_lost_is_called_lost_and_not_repeated(user: User) -> None:
    refuse_to_store_answers(user.deployment)
    user.post("/v1/pods", NEW, headers=KEY)
    user.deployment.ports.clock.advance(timedelta(seconds=61))
    second = user.post("/v1/pods", NEW, headers=KEY)
    assert (second.status, second.code) == (409, "reply_lost")
    assert second.json["retryable"] is False
    assert len(pods_of(user)) == 1


def test_a_request_without_a_key_takes_effect_each_time(user: User) -> None:
    ids = {user.post("/v1/pods", NEW).json["id"] for _ in range(2)}
    assert len(ids) == 2
    assert all(user.deployment.ports.store.find(Pod, pod_id) for pod_id in ids)


def refuse_to_store_answers(deployment: Deployment) -> None:
    """As if the function died, or the table was throttled, between effect and answer."""
    store = deployment.ports.store
    plain = store.commit

    def commit(*changes: Change) -> None:
        if any(isinstance(c, Update) and isinstance(c.entity, StoredReply) for c in changes):
            raise InternalError("the table is throttled")
        plain(*changes)

    store.commit = commit  # type: ignore[method-assign]
