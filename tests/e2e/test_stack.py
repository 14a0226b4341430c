"""The stack itself: it keeps its state, and ends without leaving anything behind."""

import pytest
from deployment import Deployment, User

from local.api import Api
from local.stack import CONTROL_STACK


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_second_start_finds_its_state(deployment: Deployment, user: User, is_clean: bool) -> None:
    pod = user.api.post("/v1/pods", {"name": "kept", "spec": {"image": "a"}, "start": False})
    stack = deployment.stack
    assert stack.aws is not None
    address = stack.api_url
    if is_clean:
        stack.aws.stop()
    else:
        stack.aws.kill()
    stack.start_aws()
    assert stack.api_url == address
    assert user.pod(pod)["name"] == "kept"


def test_the_description_and_its_page_are_served_without_a_key(deployment: Deployment) -> None:
    anonymous = Api(deployment.info.api_url, "none")
    assert anonymous.get("/openapi.json")["openapi"].startswith("3.1")
    anonymous.close()


def test_promise_17_the_schedule_sleeps_when_nothing_runs(
    deployment: Deployment, user: User
) -> None:

    rule = deployment.stack.outputs[CONTROL_STACK]["ReconcilerRuleName"]
    events = deployment.aws("events")
    pod = user.running_pod()
    assert events.describe_rule(Name=rule)["State"] == "ENABLED"
    user.do(pod, "stop")
    deployment.reconcile()
    assert events.describe_rule(Name=rule)["State"] == "DISABLED"
