"""Secrets over HTTP: they go in, pods name them, a machine gets them, and nothing shows them."""

from typing import Any

import pytest

from podferry.domain.machine import MachineState
from podferry.domain.pod import PodState
from podferry.ports.key_vault import KeyRef
from tests.unit.http.deployment import Reply, User
from tests.unit.http.running import IMAGE, a_stopped_pod, machine_token, put_on_machine

CANARY = "planted-canary-91c7"
SPEC = {"image": IMAGE, "environment": {"MODEL": "tiny", "HF_TOKEN": {"secret": "hf"}}}


def add(user: User, value: str = CANARY, name: str = "hf", **options: Any) -> Reply:
    return user.post("/v1/secrets", {"name": name, "value": value}, **options)


def texts(user: User) -> dict[KeyRef, str]:
    return user.deployment.ports.secret_vault.texts


def given(user: User, pod_id: str) -> Any:
    """What a machine of the pod is given."""
    machine = put_on_machine(user.deployment, pod_id, MachineState.READY, PodState.RUNNING)
    token = machine_token(machine.id)
    return user.deployment.call("POST", "/agent/v1/secrets", {}, token=token).json


def test_a_secret_goes_to_the_vault_and_its_answer_has_no_text(user: User) -> None:
    reply = add(user)
    assert reply.status == 201
    assert (reply.json["name"], reply.json["used_by"]) == ("hf", [])
    assert list(texts(user).values()) == [CANARY]


def test_case_x2_no_answer_and_no_row_ever_holds_the_text(
    user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [add(user, headers={"Idempotency-Key": "once"})]
    pod_id = a_stopped_pod(user, spec=SPEC)
    assert given(user, pod_id)["variables"] == {"HF_TOKEN": CANARY}
    paths = ("/v1/secrets", "/v1/secrets/hf", f"/v1/pods/{pod_id}", f"/v1/pods/{pod_id}/events")
    said += [user.get(path) for path in paths]
    said.append(user.put("/v1/secrets/hf", {"value": CANARY + "-next"}))
    assert all(reply.status < 300 and CANARY not in reply.text for reply in said)
    assert CANARY not in repr(vars(user.deployment.ports.store))
    assert CANARY not in "".join(capsys.readouterr())


def test_an_idempotency_key_does_not_leave_a_digest_that_can_be_tried(user: User) -> None:
    import json  # noqa: PLC0415
    from hashlib import sha256  # noqa: PLC0415 - of this test alone

    add(user, headers={"Idempotency-Key": "once"})
    body = json.dumps({"name": "hf", "value": CANARY})
    assert sha256(body.encode()).hexdigest() not in repr(vars(user.deployment.ports.store))
    assert add(user, headers={"Idempotency-Key": "once"}).status == 201
    assert add(user, CANARY + "x", headers={"Idempotency-Key": "once"}).status == 422


def test_a_pod_shows_the_names_of_its_secrets(user: User) -> None:
    add(user)
    pod_id = a_stopped_pod(user, spec=SPEC)
    shown = user.get(f"/v1/pods/{pod_id}").json["spec"]["environment"]
    assert shown == SPEC["environment"]
    assert user.get("/v1/secrets/hf").json["used_by"] == [pod_id]


def test_a_second_secret_of_that_name_is_refused_and_put_rotates_it(user: User) -> None:
    add(user)
    again = add(user, "something else")
    assert (again.status, again.code) == (409, "conflict")
    assert "PUT /v1/secrets/hf" in again.json["detail"]
    pod_id = a_stopped_pod(user, spec=SPEC)
    assert user.put("/v1/secrets/hf", {"value": "something else"}).status == 200
    assert given(user, pod_id) == {"variables": {"HF_TOKEN": "something else"}, "missing": []}


@pytest.mark.parametrize("start", [True, False])
def test_a_pod_that_names_a_secret_that_is_not_there_is_refused_with_its_name(
    user: User, start: bool
) -> None:
    body = {"name": "trainer", "spec": SPEC, "start": start}
    reply = user.post("/v1/pods", body)
    assert (reply.status, reply.code) == (409, "secret_missing")
    assert "hf" in reply.json["detail"]
    assert user.get("/v1/pods").json["data"] == []


def test_a_change_to_a_secret_that_is_not_there_is_refused(user: User) -> None:
    pod_id = a_stopped_pod(user)
    change = {"spec": {"environment": {"A": {"secret": "none"}}}}
    assert user.patch(f"/v1/pods/{pod_id}", change).code == "secret_missing"
    assert user.get(f"/v1/pods/{pod_id}").json["spec"]["environment"] == {}


def test_a_change_replaces_plain_variables_and_secrets_together(user: User) -> None:
    add(user)
    pod_id = a_stopped_pod(user, spec=SPEC)
    changed = user.patch(f"/v1/pods/{pod_id}", {"spec": {"environment": {"HF_TOKEN": "plain"}}})
    assert changed.json["spec"]["environment"] == {"HF_TOKEN": "plain"}
    assert user.get("/v1/secrets/hf").json["used_by"] == []
    other = user.patch(f"/v1/pods/{pod_id}", {"spec": {"startup_script": "exit 0"}})
    assert other.json["spec"]["environment"] == {"HF_TOKEN": "plain"}


def test_a_secret_that_a_pod_names_is_not_deleted_and_the_pod_is_told(user: User) -> None:
    add(user)
    pod_id = a_stopped_pod(user, spec=SPEC)
    refused = user.delete("/v1/secrets/hf")
    assert (refused.status, refused.code) == (409, "wrong_state")
    assert pod_id in refused.json["detail"]
    user.patch(f"/v1/pods/{pod_id}", {"spec": {"environment": {}}})
    assert user.delete("/v1/secrets/hf").status == 204
    assert texts(user) == {}
    assert user.delete("/v1/secrets/hf").status == 404


def test_a_deleted_pod_holds_no_secret(user: User) -> None:
    add(user)
    pod_id = a_stopped_pod(user, spec=SPEC)
    user.delete(f"/v1/pods/{pod_id}")
    assert user.delete("/v1/secrets/hf").status == 204


def test_a_secret_is_no_secret_of_anybody_else(user: User) -> None:
    add(user)
    other = user.deployment.an_account("other")
    assert other.get("/v1/secrets").json["data"] == []
    assert other.get("/v1/secrets/hf").status == 404
    assert other.delete("/v1/secrets/hf").status == 404
    assert other.post("/v1/pods", {"name": "x", "spec": SPEC}).code == "secret_missing"
    assert other.post("/v1/secrets", {"name": "hf", "value": "of the other"}).status == 201
    assert sorted(texts(user).values()) == ["of the other", CANARY]


def test_promise_11_a_machine_gets_only_what_its_own_pod_names(user: User) -> None:
    add(user)
    add(user, "of another pod", name="other")
    named, plain = a_stopped_pod(user, spec=SPEC), a_stopped_pod(user)
    assert given(user, plain) == {"variables": {}, "missing": []}
    assert given(user, named) == {"variables": {"HF_TOKEN": CANARY}, "missing": []}


def test_promise_11_a_machine_that_is_not_the_pods_any_more_gets_nothing(user: User) -> None:
    add(user)
    pod_id = a_stopped_pod(user, spec=SPEC)
    old = put_on_machine(user.deployment, pod_id, MachineState.READY, PodState.RUNNING)
    put_on_machine(user.deployment, pod_id, MachineState.READY, PodState.RUNNING)
    token = machine_token(old.id)
    reply = user.deployment.call("POST", "/agent/v1/secrets", {}, token=token)
    assert (reply.status, reply.code) == (403, "epoch_stale")


def test_what_a_machine_was_given_is_in_the_pods_events_by_name(user: User) -> None:
    add(user)
    pod_id = a_stopped_pod(user, spec=SPEC)
    given(user, pod_id)
    events = user.get(f"/v1/pods/{pod_id}/events").json["data"]
    (told,) = [e for e in events if e["type"] == "pod.secrets_given"]
    assert told["evidence"]["secrets"] == ["hf"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"name": "hf"}, "/value"),
        ({"name": "hf", "value": "short"}, "/value"),
        ({"name": "hf", "value": "x" * 16_385}, "/value"),
        ({"name": "h/f", "value": CANARY}, "/name"),
        ({"name": "hf", "value": "zero\x00byte"}, "/value"),
        ({"name": "hf", "value": CANARY, "note": ""}, "/note"),
    ],
)
def test_a_body_that_cannot_be_kept_says_where_and_not_what(
    user: User, body: dict[str, Any], where: str
) -> None:
    reply = user.post("/v1/secrets", body)
    assert (reply.status, reply.json["errors"][0]["where"]) == (400, where)
    assert CANARY not in reply.text
    assert texts(user) == {}


@pytest.mark.parametrize(
    "value", [1, None, [], {}, {"secret": "a", "x": 1}, {"secret": "a/b"}, {"secret": 3}]
)
def test_a_variable_is_a_text_or_the_name_of_a_secret(user: User, value: Any) -> None:
    body = {"name": "x", "spec": {"image": IMAGE, "environment": {"A": value}}, "start": False}
    reply = user.post("/v1/pods", body)
    assert reply.status == 400
    assert reply.json["errors"][0]["where"].startswith("/spec/environment/A")


def test_too_many_variables_say_how_many_bytes_there_may_be(user: User) -> None:
    large = {f"V{number}": "x" * 4000 for number in range(20)}
    body = {"name": "x", "spec": {"image": IMAGE, "environment": large}, "start": False}
    reply = user.post("/v1/pods", body)
    assert reply.status == 400
    assert "65536" in reply.json["errors"][0]["problem"]


def test_a_script_that_is_too_long_says_how_long_it_may_be(user: User) -> None:
    spec = {"image": IMAGE, "startup_script": "ä" * 40_000}
    reply = user.post("/v1/pods", {"name": "x", "spec": spec, "start": False})
    assert reply.status == 400
    assert "65536" in reply.json["errors"][0]["problem"]
