"""What users set and see of recoveries, and what agents say before one."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from podferry.domain.machine import Machine, MachineState
from podferry.domain.pod import Pod, RecoveredFrom
from podferry.ports.store import Update
from tests.unit.http.deployment import User
from tests.unit.http.messages import message
from tests.unit.http.running import (
    a_running_pod,
    a_stopped_pod,
    machine_of,
    machine_token,
)


def test_on_reclaim_is_set_when_a_pod_is_made_and_can_be_changed(user: User) -> None:
    assert user.get(f"/v1/pods/{a_stopped_pod(user)}").json["on_reclaim"] == "restart"
    pod_id = a_stopped_pod(user, on_reclaim="stop")
    assert user.get(f"/v1/pods/{pod_id}").json["on_reclaim"] == "stop"
    assert user.patch(f"/v1/pods/{pod_id}", {"name": "b"}).json["on_reclaim"] == "stop"
    changed = user.patch(f"/v1/pods/{pod_id}", {"on_reclaim": "restart"})
    assert changed.json["on_reclaim"] == "restart"


@pytest.mark.parametrize("value", ["", "move", None, 1])
def test_on_reclaim_is_one_of_two_words(user: User, value: object) -> None:
    reply = user.patch(f"/v1/pods/{a_stopped_pod(user)}", {"on_reclaim": value})
    assert (reply.status, reply.json["errors"][0]["where"]) == (400, "/on_reclaim")


def test_a_pod_says_what_it_came_back_with(user: User) -> None:
    pod_id = a_running_pod(user)
    assert user.get(f"/v1/pods/{pod_id}").json["recovered_from"] is None
    store = user.deployment.ports.store
    pod, now = store.get(Pod, pod_id), user.deployment.ports.clock.now()
    left = RecoveredFrom(
        snapshot_id="snap_1",
        saved_at=now - timedelta(seconds=90),
        lost_at=now,
        torn=("/workspace/log",),
    )
    store.commit(Update(replace(pod, recovered_from=left)))
    seen = user.get(f"/v1/pods/{pod_id}").json["recovered_from"]
    assert (seen["snapshot_id"], seen["age_seconds"]) == ("snap_1", 90.0)
    assert seen["torn"] == ["/workspace/log"]


def notice(user: User, pod_id: str, body: Any) -> Any:
    token = machine_token(machine_of(user.deployment, pod_id).id)
    return user.deployment.call("POST", "/agent/v1/notice", body, token=token)


def test_a_notice_is_answered_with_a_live_save(user: User) -> None:
    pod_id = a_running_pod(user)
    reply = notice(user, pod_id, message("notice.request"))
    assert reply.status == 200
    command = reply.json["command"]
    assert (command["kind"], command["args"]["mode"]) == ("capture", "live")
    again = notice(user, pod_id, message("notice.request.shutdown"))
    assert again.json["command"] == command
    machine = user.deployment.ports.store.get(Machine, machine_of(user.deployment, pod_id).id)
    assert machine.notice is not None
    assert (machine.notice.kind, machine.notice.source) == ("reclaim", "ec2")


@pytest.mark.parametrize(
    ("field", "value"),
    [("kind", "party"), ("deadline_seconds", -1), ("deadline_seconds", "5"), ("source", None)],
)
def test_a_notice_that_makes_no_sense_is_refused(user: User, field: str, value: object) -> None:
    reply = notice(user, a_running_pod(user), {**message("notice.request"), field: value})
    assert (reply.status, reply.json["errors"][0]["where"]) == (400, f"/{field}")


def test_promise_05_a_machine_that_was_lost_gives_no_notice(user: User) -> None:
    pod_id = a_running_pod(user)
    store = user.deployment.ports.store
    machine = machine_of(user.deployment, pod_id)
    store.commit(Update(replace(machine, state=MachineState.LOST)))
    reply = notice(user, pod_id, message("notice.request"))
    assert (reply.status, reply.json["code"]) == (403, "epoch_stale")
