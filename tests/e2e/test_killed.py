"""The control plane is killed in the middle of an operation, and finishes it afterwards."""

import pytest
from deployment import DIGEST, FILL, Deployment, User, reached


@pytest.mark.parametrize(
    ("kind", "where", "phase"),
    [
        ("stop", "", "quiesce"),
        ("stop", "", "capture-volume"),
        ("stop", "", "committed"),
        ("start", "vastai", "offer_chosen"),
        ("start", "vastai", "agent_registered"),
        ("start", "vastai", "restore-volume"),
    ],
)
def test_promise_10_a_control_plane_killed_in_the_middle_of_an_operation_finishes_it(
    deployment: Deployment, user: User, kind: str, where: str, phase: str
) -> None:
    pod = user.running_pod()
    user.run(pod, FILL.format(mib=100))
    digest = user.run(pod, DIGEST)
    if kind == "start":
        user.do(pod, "stop")
    operation = user.ask(pod, kind, where)
    user.until(operation, reached(phase))
    _restart(deployment, user)
    assert user.api.wait(operation, 240)["state"] == "succeeded"
    assert deployment.standing("fluence") == []
    assert len(deployment.standing("vastai")) == (1 if kind == "start" else 0)
    if kind == "stop":
        user.do(pod, "start")
    assert user.run(pod, DIGEST) == digest


def _restart(deployment: Deployment, user: User) -> None:
    deployment.kill_control_plane()
    deployment.restart_control_plane()
