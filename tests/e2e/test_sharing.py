"""Sharing on real boxes: what another account gets, and what it does not."""

from collections.abc import Iterator

import pytest
from deployment import Deployment, User

PLANTED = (
    "mkdir -p /root/.ssh /opt/app && echo key > /root/.ssh/id_ed25519 && echo ls > "
    "/root/.bash_history && echo tool > /opt/app/tool && echo mine > /workspace/mine && "
    "echo 'API_TOKEN = \"k3j4h5k3j4h5kj3h4\"' > /opt/app/conf.py"
)


@pytest.fixture
def friend(deployment: Deployment) -> Iterator[User]:
    friend = deployment.new_user()
    try:
        yield friend
    finally:
        friend.leave()


def test_promise_12_another_account_starts_the_environment_without_its_secrets(
    user: User, friend: User
) -> None:
    pod = user.running_pod()
    user.run(pod, PLANTED)
    user.do(pod, "stop")
    made = user.api.post(f"/v1/pods/{pod['id']}/share", {"accounts": [friend.account_id]})
    path = f"/v1/shares/{made['share']['id']}"
    user.api.wait(made["share"]["operation_id"])
    found = user.api.get(f"{path}/findings")["data"]
    paths = {one["path"] for one in found}
    assert "/opt/app/conf.py" in paths
    # Libraries of the base system: that of GnuTLS has a private key for its self-test.
    assert all(path.startswith("/usr/lib/") for path in paths - {"/opt/app/conf.py"})
    decisions = [
        {"path": path, "decision": "exclude" if path == "/opt/app/conf.py" else "accept"}
        for path in paths
    ]
    sealing = user.api.post(f"{path}/decisions", {"decisions": decisions})
    user.api.wait(sealing["operation_id"])
    assert user.api.get(path)["receipt"]["excluded"]["SSH and GPG keys"] >= 1
    accepted = friend.api.wait(friend.api.post(f"{path}/accept", {})["id"])["result"]
    user.api.call("DELETE", path)
    user.api.call("DELETE", f"/v1/pods/{pod['id']}")
    user.api.call("DELETE", f"/v1/environments/{made['share']['environment_id']}")
    environment = {"id": accepted["environment_id"], "version": accepted["version"]}
    theirs = friend.api.post(
        "/v1/pods",
        {
            "name": "theirs",
            "spec": {"stop_grace_seconds": 1},
            "environment": environment,
            "requirements": {"providers": ["fluence"]},
        },
    )
    friend.api.wait(theirs["operation"]["id"])
    look = "cat /opt/app/tool; ls -A /opt/app /root /workspace"
    seen = friend.run(theirs, look)
    assert seen.startswith("tool\n")
    assert not {"conf.py", ".bash_history", "mine"} & set(seen.split())
    friend.do(theirs, "stop")
