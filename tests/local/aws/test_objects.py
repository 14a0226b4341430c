"""Objects: encrypted buckets, checksums, write-once and signed URLs made by a function's role."""

import base64
import hashlib
from typing import Any

import pytest
import urllib3

from local.aws.deploy import Outputs

from .conftest import EmbeddedAWS, Function

BODY = b"a pack of chunks"


def _checksum(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


def _signed_put(probe: Function, bucket: str, key: str, body: bytes) -> tuple[str, dict[str, str]]:
    url = probe.aws(
        "s3",
        "generate_presigned_url",
        ClientMethod="put_object",
        Params={
            "Bucket": bucket,
            "Key": key,
            "ChecksumSHA256": _checksum(body),
            "ContentLength": len(body),
            "IfNoneMatch": "*",
        },
        ExpiresIn=300,
    )
    headers = {
        "x-amz-checksum-sha256": _checksum(body),
        "content-length": str(len(body)),
        "if-none-match": "*",
    }
    return url, headers


@pytest.fixture
def bucket(outputs: Outputs) -> str:
    return outputs["TinyData"]["BucketName"]


def test_signed_put_stores_once(
    probe: Function, server: EmbeddedAWS, bucket: str, http: urllib3.PoolManager
) -> None:
    url, headers = _signed_put(probe, bucket, "signed/once", BODY)

    first = http.request("PUT", url, body=BODY, headers=headers)
    second = http.request("PUT", url, body=BODY, headers=headers)
    head = server.client("s3").head_object(Bucket=bucket, Key="signed/once", ChecksumMode="ENABLED")

    assert (first.status, second.status) == (200, 412)
    assert head["ContentLength"] == len(BODY)
    assert head["ChecksumSHA256"] == _checksum(BODY)


@pytest.mark.parametrize(
    "change",
    [
        {"x-amz-checksum-sha256": _checksum(b"other")},
        {"if-none-match": None},
        {"x-amz-checksum-sha256": None},
    ],
)
def test_signed_put_refuses_other_headers(
    probe: Function, bucket: str, http: urllib3.PoolManager, change: dict[str, Any]
) -> None:
    url, headers = _signed_put(probe, bucket, "signed/headers", BODY)
    changed = {name: value for name, value in (headers | change).items() if value is not None}

    assert http.request("PUT", url, body=BODY, headers=changed).status in {400, 403}


def test_signed_put_refuses_another_body(
    probe: Function, bucket: str, http: urllib3.PoolManager
) -> None:
    url, headers = _signed_put(probe, bucket, "signed/body", BODY)

    assert http.request("PUT", url, body=BODY[::-1], headers=headers).status == 400


def test_signed_put_refuses_another_length(
    probe: Function, bucket: str, http: urllib3.PoolManager
) -> None:
    url, headers = _signed_put(probe, bucket, "signed/length", BODY)
    longer = headers | {"content-length": str(len(BODY) + 1)}

    assert http.request("PUT", url, body=BODY + b"!", headers=longer).status in {400, 403}


def test_signed_put_refuses_another_key(
    probe: Function, bucket: str, http: urllib3.PoolManager
) -> None:
    url, headers = _signed_put(probe, bucket, "signed/key", BODY)
    other = url.replace("signed/key", "signed/other")

    assert http.request("PUT", other, body=BODY, headers=headers).status == 403


def test_signed_get_serves_ranges(
    probe: Function, server: EmbeddedAWS, bucket: str, http: urllib3.PoolManager
) -> None:
    server.client("s3").put_object(Bucket=bucket, Key="ranges", Body=BODY)
    url = probe.aws(
        "s3",
        "generate_presigned_url",
        ClientMethod="get_object",
        Params={"Bucket": bucket, "Key": "ranges"},
    )

    part = http.request("GET", url, headers={"range": "bytes=2-5"})
    whole = http.request("GET", url)

    assert (part.status, part.data) == (206, BODY[2:6])
    assert (whole.status, whole.data) == (200, BODY)


def test_object_without_signature_is_refused(
    server: EmbeddedAWS, bucket: str, http: urllib3.PoolManager
) -> None:
    server.client("s3").put_object(Bucket=bucket, Key="private", Body=BODY)

    assert http.request("GET", f"{server.endpoint}/{bucket}/private").status == 403


@pytest.mark.parametrize("name", ["BucketName", "ManagedName"])
def test_encrypted_bucket_keeps_checksums(server: EmbeddedAWS, outputs: Outputs, name: str) -> None:
    s3 = server.client("s3")
    place = {"Bucket": outputs["TinyData"][name], "Key": "checked"}
    s3.put_object(**place, Body=BODY, ChecksumSHA256=_checksum(BODY))

    found = s3.get_object(**place, ChecksumMode="ENABLED")

    assert found["Body"].read() == BODY
    assert found["ChecksumSHA256"] == _checksum(BODY)


def test_bucket_policy_can_demand_write_once(
    probe: Function, outputs: Outputs, http: urllib3.PoolManager
) -> None:
    bucket = outputs["TinyData"]["GuardedName"]
    careless = probe.aws("s3", "put_object", Bucket=bucket, Key="once", Body="first")
    url, headers = _signed_put(probe, bucket, "once", BODY)
    careful = http.request("PUT", url, body=BODY, headers=headers)

    assert careless["error"] == "AccessDenied"
    assert careful.status == 200


def test_url_is_worth_no_more_than_the_role_that_signed_it(
    stranger: Function, bucket: str, http: urllib3.PoolManager
) -> None:
    url, headers = _signed_put(stranger, bucket, "signed/stranger", BODY)

    assert http.request("PUT", url, body=BODY, headers=headers).status == 403
