"""Saves on real boxes: what a machine that dies takes with it."""

import time
from typing import Any

from deployment import Deployment, User

LONGEST_SAVE_SECONDS = 100


def when_saved(user: User, pod: dict[str, Any], after: str | None) -> dict[str, Any]:
    """The pod's newest save, once it is another than `after`."""
    deadline = time.monotonic() + LONGEST_SAVE_SECONDS
    while True:
        save = user.pod(pod)["last_save"]
        if save is not None and save["snapshot_id"] != after:
            return dict(save)
        assert time.monotonic() < deadline, user.pod(pod)["save_error"]
        time.sleep(0.5)


def kill_box(deployment: Deployment, user: User, pod: dict[str, Any]) -> None:
    """Pull the plug: the provider ends the machine without a word."""
    provider, instance = user.box(pod)
    deployment.control(provider, "POST", f"/instances/{instance}/reclaim", json={"notice": "none"})


def test_promise_08_what_was_saved_in_the_background_outlives_a_machine_that_dies(
    deployment: Deployment, user: User
) -> None:
    pod = user.running_pod()
    user.api.call("PATCH", f"/v1/pods/{pod['id']}", json={"save_interval_seconds": 60})
    user.run(pod, "mkdir -p /workspace/d && echo kept > /workspace/d/work && sync")
    asked = user.do(pod, "save", label="mine")
    manual = user.pod(pod)["last_save"]
    assert (asked["result"]["snapshot_id"], manual["kind"]) == (manual["snapshot_id"], "manual")
    user.run(pod, "echo more >> /workspace/d/work && sync")
    background = when_saved(user, pod, after=manual["snapshot_id"])
    assert background["kind"] == "background"
    assert user.pod(pod)["save_state"] == "saved"
    kill_box(deployment, user, pod)
    *_, stop = user.api.watch(user.ask(pod, "stop", accept_loss=True), 240)
    assert [line.split(":")[0] for line in stop["lost"]] == [
        f"changes of the {kind} since its last committed state"
        for kind in ("environment", "volume")
    ]
    assert user.pod(pod)["volume"]["head"] == background["snapshot_id"]
    user.do(pod, "start", "vastai")
    assert user.run(pod, "cat /workspace/d/work") == "kept\nmore\n"
