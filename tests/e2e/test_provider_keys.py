"""An account's own provider key on a whole stack: rights, secrets, functions and logs as on AWS."""

import json
import time

import pytest
from deployment import Deployment, User, code_of

from local.api import ApiError

PATH = "/v1/provider-keys/vastai"


def providers_key(deployment: Deployment) -> str:
    text = (deployment.stack.data / "provider_keys.json").read_text()
    return str(json.loads(text)["vastai"])


def test_a_pod_lives_under_its_accounts_own_key_and_nothing_shows_the_key(
    deployment: Deployment, user: User
) -> None:
    key = providers_key(deployment)
    stored = user.api.call("PUT", PATH, json={"api_key": key})
    assert (stored["state"], stored["used_at"]) == ("works", None)

    pod = user.running_pod("vastai")
    used_at = time.monotonic()
    with pytest.raises(ApiError) as refused:
        user.api.call("DELETE", PATH)
    assert code_of(refused.value) == (409, "wrong_state")
    assert pod["id"] in refused.value.problem["detail"]

    user.do(pod, "stop")
    assert deployment.standing("vastai") == []
    delete_when_settled(user, used_at + 90)
    assert user.api.get("/v1/provider-keys")["data"] == []

    text = deployment.logs()
    assert '"route":"PUT /v1/provider-keys/vastai"' in text, "the right logs were read"
    assert key not in text


def delete_when_settled(user: User, deadline: float) -> None:
    """A key that was used within the last minute is not deleted."""
    while (refusal := deletion(user)) is not None:
        assert refusal == (409, "conflict")
        assert time.monotonic() < deadline
        time.sleep(2)


def deletion(user: User) -> tuple[int, str] | None:
    """Why it was refused."""
    try:
        user.api.call("DELETE", PATH)
    except ApiError as error:
        return code_of(error)
    return None


def test_a_key_that_the_provider_does_not_know_is_refused_and_kept_nowhere(
    deployment: Deployment, user: User
) -> None:
    with pytest.raises(ApiError) as refused:
        user.api.call("PUT", PATH, json={"api_key": "sim-planted-canary"})
    assert code_of(refused.value) == (400, "invalid_request")
    assert [each["where"] for each in refused.value.problem["errors"]] == ["/api_key"]
    secrets = deployment.aws("secretsmanager").list_secrets()["SecretList"]
    assert not [one for one in secrets if user.account_id in one["Name"]]


def test_a_role_stands_in_for_a_key_if_it_trusts_the_account_and_no_other(
    deployment: Deployment, user: User
) -> None:
    path = "/v1/provider-keys/ec2"
    trust = user.api.get(f"{path}/trust")
    role = f"arn:aws:iam::{trust['aws_account']}:role/podferry-for-{trust['external_id']}"
    others = role.replace(user.account_id, "acct_of_somebody_else")
    with pytest.raises(ApiError) as refused:
        user.api.call("PUT", path, json={"api_key": json.dumps({"role_arn": others})})
    assert code_of(refused.value) == (400, "invalid_request")
    stored = user.api.call("PUT", path, json={"api_key": json.dumps({"role_arn": role})})
    assert stored["state"] == "works"
    assert user.api.get("/v1/offers?providers=ec2")["data"]
    user.api.call("DELETE", path)
