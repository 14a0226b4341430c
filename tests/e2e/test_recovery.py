"""Machines that a provider takes away, on real boxes: the pod comes back by itself."""

import time
from typing import Any

import pytest
from deployment import Deployment, User

NOTICE_SECONDS = 5
LONGEST_RECOVERY_SECONDS = 330


def take_back(deployment: Deployment, user: User, pod: dict[str, Any], **notice: Any) -> None:
    """The provider takes the pod's machine, with or without a warning."""
    provider, instance = user.box(pod)
    deployment.control(provider, "POST", f"/instances/{instance}/reclaim", json=notice)


def until_elsewhere(user: User, pod: dict[str, Any], old_machine: str) -> dict[str, Any]:
    """The pod when it runs on another machine, without anybody asking for it."""
    deadline = time.monotonic() + LONGEST_RECOVERY_SECONDS
    words = set()
    while True:
        seen = user.pod(pod)
        words.add(seen["state"])
        machine = seen["machine"]
        if seen["state"] == "running" and machine and machine["id"] != old_machine:
            return dict(seen)
        assert words <= {"running", "unreachable", "recovering"}, seen
        assert time.monotonic() < deadline, seen
        time.sleep(1)


@pytest.mark.parametrize(
    ("notice", "kind", "expected"),
    [
        ({"notice": "none"}, "manual", "saved\n"),
        (
            {"notice": "sigterm", "seconds": NOTICE_SECONDS},
            "reclaim",
            "saved\nof the last minute\n",
        ),
    ],
)
def test_promise_08_a_pod_whose_machine_is_taken_away_comes_back_by_itself(
    deployment: Deployment, user: User, notice: dict[str, Any], kind: str, expected: str
) -> None:
    pod = user.running_pod()
    user.run(pod, "echo saved > /workspace/work && sync")
    user.do(pod, "save")
    user.run(pod, "echo of the last minute >> /workspace/work && sync")
    old_machine = user.pod(pod)["machine"]["id"]
    take_back(deployment, user, pod, **notice)
    seen = until_elsewhere(user, pod, old_machine)
    assert user.run(pod, "cat /workspace/work") == expected
    assert seen["last_save"]["kind"] == kind
    assert seen["recovered_from"]["snapshot_id"] == seen["last_save"]["snapshot_id"]
    assert seen["recovered_from"]["torn"] == []
    events = user.api.get(f"/v1/pods/{pod['id']}/events?limit=100")["data"]
    (lost,) = [event for event in events if event["type"] == "machine.lost"]
    recovery = user.api.get(f"/v1/operations/{lost['operation_id']}")
    assert (recovery["kind"], recovery["cause"]) == ("recover", "reclaim")
    assert recovery["state"] == "succeeded"
    assert [e["type"] for e in events].count("machine.notice") == (notice["notice"] == "sigterm")
