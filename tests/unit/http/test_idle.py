"""What users set and see of idle pods, and what agents say of the use of their boxes."""

from datetime import timedelta
from typing import Any

import pytest

from podferry.domain.activity import SHORTEST_GAP_MINUTES, SHORTEST_WARN_MINUTES
from podferry.domain.idle import IdleWatch
from podferry.domain.machine import Pulse
from podferry.domain.pod import Pod
from podferry.ports.store import Create
from tests.unit.http.deployment import User
from tests.unit.http.messages import message
from tests.unit.http.running import a_running_pod, a_stopped_pod, machine_of, machine_token

ALL = ["gpu", "cpu", "network", "ssh", "processes"]
POLICY = {"warn_after_minutes": 30, "stop_after_minutes": 45, "signals": ALL}


def test_a_pod_has_no_policy_unless_its_user_gives_it_one(user: User) -> None:
    seen = user.get(f"/v1/pods/{a_stopped_pod(user)}").json
    assert (seen["idle"], seen["idle_status"]) == (None, None)


def test_a_policy_is_given_with_the_pod_or_later_and_taken_away(user: User) -> None:
    given = {"warn_after_minutes": 30, "stop_after_minutes": 45}
    pod_id = a_stopped_pod(user, idle=given)
    assert user.get(f"/v1/pods/{pod_id}").json["idle"] == POLICY
    assert user.patch(f"/v1/pods/{pod_id}", {"name": "b"}).json["idle"] == POLICY
    other = {"warn_after_minutes": 5, "stop_after_minutes": 10, "signals": ["ssh", "gpu"]}
    changed = user.patch(f"/v1/pods/{pod_id}", {"idle": other}).json["idle"]
    assert changed == {**other, "signals": ["gpu", "ssh"]}
    assert user.patch(f"/v1/pods/{pod_id}", {"idle": None}).json["idle"] is None


@pytest.mark.parametrize(
    ("warn", "gap"),
    [(SHORTEST_WARN_MINUTES, SHORTEST_GAP_MINUTES), (10_000, SHORTEST_GAP_MINUTES)],
)
def test_case_r9_the_stop_comes_some_time_after_the_warning(
    user: User, warn: int, gap: int
) -> None:
    def make(stop_after: int) -> Any:
        idle = {"warn_after_minutes": warn, "stop_after_minutes": stop_after}
        body = {"name": "a", "spec": {"image": "debian:12"}, "start": False, "idle": idle}
        return user.post("/v1/pods", body)

    assert make(warn + gap).status == 201
    refused = make(warn + gap - 1)
    assert refused.status == 400
    assert "/idle" in refused.json["errors"][0]["where"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"warn_after_minutes": 4}, "/idle/warn_after_minutes"),
        ({"stop_after_minutes": 10_081}, "/idle/stop_after_minutes"),
        ({"stop_after_minutes": "45"}, "/idle/stop_after_minutes"),
        ({"signals": []}, "/idle/signals"),
        ({"signals": ["gpu", "gpu"]}, "/idle/signals"),
        ({"signals": ["disk"]}, "/idle/signals/0"),
        ({"enabled": True}, "/idle/enabled"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(
    user: User, change: dict[str, object], where: str
) -> None:
    reply = user.patch(f"/v1/pods/{a_stopped_pod(user)}", {"idle": {**POLICY, **change}})
    assert (reply.status, reply.json["errors"][0]["where"]) == (400, where)


def beat(user: User, pod_id: str, **changes: object) -> Any:
    token = machine_token(machine_of(user.deployment, pod_id).id)
    body = {**message("heartbeat.request"), "commands": [], **changes}
    return user.deployment.call("POST", "/agent/v1/heartbeat", body, token=token)


def test_an_agent_is_told_what_to_watch_while_its_pod_has_a_policy(user: User) -> None:
    pod_id = a_running_pod(user)
    assert beat(user, pod_id).json["idle_signals"] is None
    user.patch(f"/v1/pods/{pod_id}", {"idle": {**POLICY, "signals": ["gpu", "ssh"]}})
    assert beat(user, pod_id).json["idle_signals"] == ["gpu", "ssh"]
    user.patch(f"/v1/pods/{pod_id}", {"idle": None})
    assert beat(user, pod_id).json["idle_signals"] is None


def test_what_an_agent_says_is_kept_and_shown(user: User) -> None:
    pod_id = a_running_pod(user)
    user.patch(f"/v1/pods/{pod_id}", {"idle": POLICY})
    user.deployment.ports.clock.advance(timedelta(minutes=1))
    said = message("heartbeat.request")["activity"]
    assert beat(user, pod_id).status == 200
    status = user.get(f"/v1/pods/{pod_id}").json["idle_status"]
    assert (status["state"], status["reason"]) == ("unknown", "not evaluated yet")
    assert status["signals"] == said["readings"]


def test_an_agent_of_an_older_version_says_nothing_of_it(user: User) -> None:
    pod_id = a_running_pod(user)
    body = {k: v for k, v in message("heartbeat.request").items() if k != "activity"}
    token = machine_token(machine_of(user.deployment, pod_id).id)
    reply = user.deployment.call("POST", "/agent/v1/heartbeat", body, token=token)
    assert reply.status == 200


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"idle_seconds": -1}, "/activity/idle_seconds"),
        ({"counted": ["gpu"] * 6}, "/activity/counted"),
        (
            {"readings": [{"signal": "gpu", "state": "dead", "for_seconds": 1}]},
            "/activity/readings",
        ),
    ],
)
def test_an_agent_that_makes_no_sense_is_refused(
    user: User, change: dict[str, object], where: str
) -> None:
    said = {**message("heartbeat.request")["activity"], **change}
    reply = beat(user, a_running_pod(user), activity=said)
    assert reply.status == 400
    assert reply.json["errors"][0]["where"].startswith(where)


def test_a_pod_shows_since_when_it_is_idle_and_when_it_will_be_stopped(user: User) -> None:
    pod_id = a_running_pod(user)
    user.patch(f"/v1/pods/{pod_id}", {"idle": POLICY})
    store, now = user.deployment.ports.store, user.deployment.ports.clock.now()
    machine, policy = machine_of(user.deployment, pod_id), store.get(Pod, pod_id).idle
    assert policy is not None
    watch = IdleWatch(
        id=machine.id,
        account_id=machine.account_id,
        created_at=now,
        policy=policy,
        begun_at=now,
        looked_at=now,
        evaluated_at=now,
        idle_since=now - timedelta(minutes=31),
        warned_at=now,
    )
    store.commit(Create(watch))
    status = user.get(f"/v1/pods/{pod_id}").json["idle_status"]
    assert (status["state"], status["reason"]) == ("warned", None)
    stops_at = (now + timedelta(minutes=15)).isoformat()
    assert status["stops_at"].replace("Z", "+00:00") == stops_at
    assert status["signals"] == []
    user.patch(f"/v1/pods/{pod_id}", {"idle": {**POLICY, "signals": ["gpu"]}})
    assert user.get(f"/v1/pods/{pod_id}").json["idle_status"]["state"] == "unknown"


def test_the_row_of_a_pulse_keeps_what_was_said(user: User) -> None:
    pod_id = a_running_pod(user)
    user.deployment.ports.clock.advance(timedelta(minutes=1))
    beat(user, pod_id)
    pulse = user.deployment.ports.store.get(Pulse, machine_of(user.deployment, pod_id).id)
    assert pulse.activity is not None
    assert pulse.activity.idle_seconds == 312.5
