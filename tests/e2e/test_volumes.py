"""Volumes that are shared, forked and taken back, with real agents and real objects."""

from typing import Any

from deployment import IMAGE, Deployment, User


def pod_with(user: User, volume: dict[str, Any]) -> dict[str, Any]:
    """A running pod of Vast.ai, which has a volume that exists."""
    body = {
        "name": "other",
        "spec": {"image": IMAGE, "stop_grace_seconds": 1},
        "requirements": {"providers": ["vastai"]},
        "volume": volume,
    }
    pod = user.api.post("/v1/pods", body)
    user.api.wait(pod["operation"]["id"])
    return user.pod(pod)


def test_promise_05_a_reader_sees_the_newest_save_and_a_fork_goes_on_from_the_first(
    deployment: Deployment, user: User
) -> None:
    writer = user.running_pod()
    volume = f"/v1/volumes/{writer['volume']['id']}"
    user.run(writer, "mkdir -p /workspace/d && echo first > /workspace/d/work")
    first = user.do(writer, "save")["result"]["snapshot_id"]
    user.run(writer, "echo second > /workspace/d/work")
    second = user.do(writer, "save")["result"]["snapshot_id"]
    fork = user.api.post(f"{volume}/fork", {"snapshot_id": first, "name": "try"})
    assert (fork["head"], fork["stored_bytes"]) == (first, 0)

    reader = pod_with(user, {"id": writer["volume"]["id"], "read_only": True})
    assert user.run(reader, "cat /workspace/d/work") == "second\n"
    user.run(reader, "echo scratch > /workspace/d/work")
    receipt = user.do(reader, "stop")["result"]
    assert (receipt["volume"], "not_captured" in receipt) == (None, True)
    assert user.api.get(volume)["head"] == second

    user.do(reader, "start", "vastai", volume={"id": fork["id"]})
    assert user.run(reader, "cat /workspace/d/work") == "first\n"
    user.do(writer, "stop")
    restored = user.api.post(f"{volume}/restore", {"snapshot_id": first})
    assert restored["head"] == first
    stored = user.api.get("/v1/account/storage")
    assert stored["stored_bytes"] >= user.api.get(volume)["stored_bytes"] > 0
