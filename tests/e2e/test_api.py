"""The live API: bad input, foreign ids, tokens, idempotency, leaks in the logs."""

import httpx
import pytest
from deployment import Deployment, User, code_of

from local.api import Api, ApiError


def test_promise_10_the_same_post_twice_with_one_key_makes_one_pod(user: User) -> None:
    body = {"name": "once", "spec": {"image": "debian:12"}, "start": False}
    first = user.api.post("/v1/pods", body, idempotency_key="same")
    second = user.api.post("/v1/pods", body, idempotency_key="same")
    assert first["id"] == second["id"]
    assert len(user.api.get("/v1/pods")["data"]) == 1
    with pytest.raises(ApiError) as refused:
        user.api.post("/v1/pods", {**body, "name": "other"}, idempotency_key="same")
    assert code_of(refused.value) == (422, "idempotency_key_reused")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"colour": "blue"}, "/colour"),
        ({"name": 7}, "/name"),
        ({"name": "x" * 100_000}, "/name"),
        ({"spec": {"image": "debian:12", "ports": [70000]}}, "/spec/ports/0"),
        ({"requirements": {"disk_gib": 10**30}}, "/requirements/disk_gib"),
        ({"requirements": {"gpu_count": -1}}, "/requirements/gpu_count"),
    ],
)
def test_bad_input_is_answered_with_what_and_where(user: User, change: dict, where: str) -> None:
    body = {"name": "bad", "spec": {"image": "debian:12"}, "start": False, **change}
    with pytest.raises(ApiError) as refused:
        user.api.post("/v1/pods", body)
    assert refused.value.status == 400
    assert where in [e["where"] for e in refused.value.problem["errors"]]
    assert refused.value.problem["request_id"]
    assert user.api.get("/v1/pods")["data"] == []


def test_what_belongs_to_another_account_does_not_exist(deployment: Deployment, user: User) -> None:
    pod = user.api.post("/v1/pods", {"name": "p", "spec": {"image": "a"}, "start": False})
    other = deployment.new_user()
    paths = [
        f"/v1/pods/{pod['id']}",
        f"/v1/environments/{pod['environment']['id']}",
        f"/v1/volumes/{pod['volume']['id']}",
        f"/v1/pods/{pod['id']}/events",
    ]
    for path in paths:
        with pytest.raises(ApiError) as refused:
            other.api.get(path)
        assert code_of(refused.value) == (404, "not_found")
    other.leave()


@pytest.mark.parametrize("token", ["", "nonsense", "pf_x_y", "pfm_mach_x_y", "Bearer"])
def test_bad_tokens_are_refused_with_a_problem(deployment: Deployment, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = httpx.get(f"{deployment.info.api_url}/v1/pods", headers=headers, trust_env=False)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "token_invalid"


def test_promise_11_a_machines_token_opens_nothing_but_the_agents_routes(
    deployment: Deployment, user: User
) -> None:
    pod = user.running_pod()
    provider, instance = user.box(pod)
    found = deployment.in_box(
        provider, instance, "grep -rhoE 'pfm_mach_[0-9a-z]+_[A-Za-z0-9_-]+' /.podferry/state"
    )
    machine = Api(deployment.info.api_url, found.split()[0])
    with pytest.raises(ApiError) as refused:
        machine.get("/v1/pods")
    assert refused.value.status in {401, 403}
    with pytest.raises(ApiError) as refused:
        machine.post(
            "/agent/v1/uploads",
            {
                "snapshot_id": "snap_00000000000000000000000000",
                "attempt_id": "x",
                "objects": [{"name": "packs/" + "0" * 64, "size": 1, "sha256": "0" * 64}],
            },
        )
    assert refused.value.status == 404
    machine.close()


def test_no_token_and_no_signed_url_is_in_any_log(deployment: Deployment, user: User) -> None:
    pod = user.running_pod()
    user.run(pod, "echo canary > /workspace/c")
    provider, instance = user.box(pod)
    agent_log = deployment.in_box(
        provider, instance, "cat /.podferry/state/*.log 2>/dev/null; true"
    )
    user.do(pod, "stop")
    text = agent_log + deployment.logs()
    assert "step done" in text, "the logs that were read are the right ones"
    secrets = ("X-Amz-Signature=", "pfb_mach_", "pfm_mach_", "pf_admin_", "PRIVATE KEY--")
    for canary in (user.token, *secrets):
        assert canary not in text, canary
