"""Two pods of one image with a secret, on a whole stack: what is stored, and what nobody finds."""

import json
from typing import Any

import pytest
from deployment import Deployment, User, code_of

from local.api import ApiError
from local.stack import STATE_STACK

CANARY = "planted-canary-e2e-4417"
SHOW = 'printf %s "$HF_TOKEN" | wc -c; echo $HF_TOKEN; echo $MODEL'


def stored_bytes(deployment: Deployment, user: User, snapshot_id: str) -> int:
    pages = deployment.aws("s3").get_paginator("list_objects_v2")
    prefix = f"{user.account_id}/{snapshot_id}/"
    found = pages.paginate(Bucket=deployment.bucket("environment"), Prefix=prefix)
    return sum(one["Size"] for page in found for one in page.get("Contents", ()))


def everything_stored(deployment: Deployment, user: User) -> list[bytes]:
    """Every row, and every object of the user."""
    table = deployment.stack.outputs[STATE_STACK]["TableName"]
    pages = deployment.aws("dynamodb").get_paginator("scan").paginate(TableName=table)
    rows = [json.dumps(page["Items"], default=str).encode() for page in pages]
    s3 = deployment.aws("s3")
    buckets = [deployment.bucket(kind) for kind in ("environment", "volume")]
    return rows + [
        s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
        for bucket in buckets
        for page in s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{user.account_id}/"
        )
        for one in page.get("Contents", ())
    ]


def head_of(user: User, pod: dict[str, Any]) -> str:
    return str(user.pod(pod)["environment"]["head"])


def test_case_x2_a_second_pod_of_an_image_stores_what_differs_and_no_secret_is_found(
    deployment: Deployment, user: User
) -> None:
    user.api.call("POST", "/v1/secrets", json={"name": "hf", "value": CANARY})
    variables = {"MODEL": "tiny", "HF_TOKEN": {"secret": "hf"}}
    script = 'test -n "$HF_TOKEN" && echo "$MODEL ${#HF_TOKEN}" > /opt/seen'
    first = user.running_pod(environment=variables, startup_script=script)
    assert user.run(first, "cat /opt/seen") == f"tiny {len(CANARY)}\n"
    assert user.run(first, SHOW) == f"{len(CANARY)}\n<secret>\ntiny\n"
    digest = user.pod(first)["base"]["digest"]
    assert digest.startswith("sha256:")
    user.do(first, "stop")

    second = user.running_pod("vastai", environment=variables)
    user.run(second, "head -c 300000 /dev/urandom > /opt/tool")
    user.do(second, "stop")
    assert user.pod(second)["base"]["digest"] == digest
    sizes = [stored_bytes(deployment, user, head_of(user, pod)) for pod in (first, second)]
    assert sizes[1] - 300_000 < sizes[0] / 10, sizes
    user.do(second, "start")
    assert user.run(second, "stat -c %s /opt/tool") == "300000\n"

    with pytest.raises(ApiError) as refused:
        user.api.call("DELETE", "/v1/secrets/hf")
    assert code_of(refused.value) == (409, "wrong_state")
    stored = everything_stored(deployment, user)
    assert any(first["id"].encode() in one for one in stored), "the right things were searched"
    assert not [one for one in stored if CANARY.encode() in one]
    logs = deployment.logs()
    assert '"route":"POST /v1/secrets"' in logs
    assert CANARY not in logs
