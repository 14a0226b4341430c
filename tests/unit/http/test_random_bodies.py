"""Whatever JSON is sent, the answer is described and never a 5xx (checked in `Deployment.send`)."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.http.deployment import OPERATOR, Deployment, User
from tests.unit.http.messages import message
from tests.unit.http.running import (
    a_running_pod,
    a_stopped_pod,
    an_open_snapshot,
    boot_token,
    machine_of,
    machine_token,
)

SMALL = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TEXT = st.text(st.characters(codec=None), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
BODIES: dict[str, dict[str, Any]] = {
    "/v1/pods": {
        "name": "a",
        "spec": {
            "image": "debian:12",
            "environment": {"A": "b", "B": {"secret": "hf"}},
            "ports": [1],
            "serving_port": 1,
        },
        "requirements": {"gpu_names": ["H100"], "countries": ["DE"], "min_vram_gib": 3},
        "volume": {"id": "vol_" + "0" * 26, "read_only": False},
        "capture_rules": ["x"],
        "idle": {"warn_after_minutes": 5, "stop_after_minutes": 10, "signals": ["gpu"]},
        "start": False,
    },
    "/v1/keys": {"name": "a", "scopes": ["pods:read"]},
    "/v1/secrets": {"name": "hf", "value": "0123456789"},
    "/v1/ssh-keys": {"name": "a", "public_key": "ssh-ed25519 AAAA"},
    "/start": {"requirements": {"gpu_count": 1, "providers": ["vastai"]}},
    "/stop": {"accept_loss": True},
    "/move": {"requirements": {"disk_gib": 5}},
    "/exec": {"argv": ["a"], "stdin": "AAAA", "timeout_seconds": 1, "environment": {"A": "b"}},
    "": {"name": "b", "spec": {"startup_script": "x"}, "requirements": {"gpu_count": 16}},
}
AGENT = ("register", "heartbeat", "uploads", "downloads", "commit", "output")


@st.composite
def broken(draw: st.DrawFn, sound: Any) -> Any:
    """A sound value with something in it replaced, left out or added."""
    if isinstance(sound, dict) and sound and draw(st.integers(0, 3)):
        name = draw(st.sampled_from(sorted(sound)))
        rest = {key: value for key, value in sound.items() if key != name}
        if draw(st.integers(0, 5)) == 0:
            return {**rest, draw(TEXT): draw(JSON)}
        return {**sound, name: draw(broken(sound[name]))}
    if isinstance(sound, list) and sound and draw(st.booleans()):
        return [draw(broken(sound[0])), *sound[1:]]
    return draw(JSON)


def text_of(body: Any) -> str:
    return json.dumps(body)


@pytest.mark.parametrize("path", sorted(BODIES))
def test_no_body_of_a_user_breaks_anything(path: str) -> None:
    user = Deployment().an_account()
    stopped, running = a_stopped_pod(user), a_running_pod(user)

    @SMALL
    @given(st.one_of(JSON, broken(BODIES[path])))
    def check(body: Any) -> None:
        for pod_id in (stopped, running):
            assert send(user, path, pod_id, text_of(body)).status < 500

    check()


def send(user: User, path: str, pod_id: str, text: str) -> Any:
    if path.startswith("/v1/"):
        return user.post(path, text)
    if not path:
        return user.patch(f"/v1/pods/{pod_id}", text)
    return user.post(f"/v1/pods/{pod_id}{path}", text)


@SMALL
@given(st.one_of(JSON, broken({"name": "a"})))
def test_no_body_of_the_operator_breaks_anything(body: Any) -> None:
    reply = Deployment().call("POST", "/v1/accounts", text_of(body), token=OPERATOR)
    assert reply.status < 500


@pytest.mark.parametrize("route", AGENT)
def test_no_body_of_a_machine_breaks_anything(route: str) -> None:
    user = Deployment().an_account()
    deployment, pod_id = user.deployment, a_running_pod(user)
    machine = machine_of(deployment, pod_id)
    sound = message(f"{route}.request")
    for field, value in (
        ("machine_id", machine.id),
        ("snapshot_id", an_open_snapshot(deployment, pod_id).id),
        ("command_id", user.post(f"/v1/pods/{pod_id}/exec", {"script": "id"}).json["id"]),
    ):
        if field in sound:
            sound[field] = value
    token = boot_token(machine.id) if route == "register" else machine_token(machine.id)
    sounder = deployment.call("POST", f"/agent/v1/{route}", sound, token=token)
    assert sounder.status in {200, 404, 409}, sounder.text

    @SMALL
    @given(st.one_of(JSON, broken(sound)))
    def check(body: Any) -> None:
        reply = deployment.call("POST", f"/agent/v1/{route}", text_of(body), token=token)
        assert reply.status < 500, reply.text

    check()


@SMALL
@given(st.binary(max_size=60))
def test_no_bytes_break_anything(body: bytes) -> None:
    user = Deployment().an_account()
    assert user.post("/v1/pods", body.decode("latin-1")).status in {202, 400}


@SMALL
@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_no_path_breaks_anything(tail: str) -> None:
    user = Deployment().an_account()
    assert user.get(f"/v1/pods/{tail}").status in {200, 404, 405}


@SMALL
@given(
    st.dictionaries(
        TEXT.filter(lambda t: t.isprintable()),
        st.text(st.characters(codec="utf-8"), max_size=9),
        max_size=3,
    )
)
def test_no_query_breaks_anything(query: dict[str, str]) -> None:
    user = Deployment().an_account()
    assert user.get("/v1/offers", query=query).status in {200, 400}
