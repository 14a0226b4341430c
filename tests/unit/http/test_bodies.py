"""Bodies that are no good are refused with what, where and how to mend it."""

import base64
import json
from typing import Any

import pytest

from podferry.http.surfaces import USER_BODY_BYTES
from tests.unit.http.deployment import Reply, User, an_event

NEW: dict[str, Any] = {"name": "trainer", "spec": {"image": "debian:12"}}


def problems(reply: Reply) -> dict[str, str]:
    assert (reply.status, reply.code) == (400, "invalid_request"), reply.text
    return {item["where"]: item["problem"] for item in reply.json["errors"]}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("{", "not JSON"),
        ("not json", "not JSON"),
        ("[]", "JSON object"),
        ('[{"name": "a"}]', "JSON object"),
        ("null", "JSON object"),
        ('"text"', "JSON object"),
        ('{"name": NaN}', "NaN is not JSON"),
        ('{"name": -Infinity}', "-Infinity is not JSON"),
        ('{"name": "a", "name": "b"}', "twice"),
        ('{"a": ' * 21 + "1" + "}" * 21, "deeper than 20"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "deeper than 20"),
        ('{"a": ' + "9" * 5000 + "}", "too many digits"),
    ],
)
def test_a_body_that_is_not_one_json_object_is_refused(user: User, body: str, problem: str) -> None:
    found = problems(user.post("/v1/pods", body))
    assert problem in found["body"]


def test_a_body_of_another_type_is_refused(user: User) -> None:
    for content_type in ("text/plain", "application/xml", "", "application/json; charset=latin-1"):
        reply = user.post("/v1/pods", NEW, headers={"Content-Type": content_type})
        assert (reply.status, reply.code) == (415, "unsupported_media_type")


def test_json_may_say_that_it_is_utf_8(user: User) -> None:
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    assert user.post("/v1/pods", NEW, headers=headers).status == 202


def test_a_body_that_is_too_large_is_refused(user: User) -> None:
    body = json.dumps({"name": "x" * USER_BODY_BYTES})
    reply = user.post("/v1/pods", body)
    assert (reply.status, reply.code) == (413, "body_too_large")
    assert str(USER_BODY_BYTES) in reply.json["detail"]


def test_a_body_that_the_gateway_encoded_is_read(user: User) -> None:
    assert send_bytes(user, json.dumps(NEW).encode()).status == 202


def test_bytes_that_are_not_utf_8_are_refused(user: User) -> None:
    found = problems(send_bytes(user, b'{"name": "\xff"}'))
    assert "UTF-8" in found["body"]


def test_a_body_that_is_not_the_base64_it_is_said_to_be_is_refused(user: User) -> None:
    event = an_event("POST", "/v1/pods", "%%%")
    event["isBase64Encoded"] = True
    event["headers"]["authorization"] = f"Bearer {user.token}"
    assert "whole" in problems(user.deployment.send(event))["body"]


def test_half_a_surrogate_pair_is_no_text(user: User) -> None:
    assert "/name" in problems(user.post("/v1/pods", '{"name": "\\ud800", "spec": {"image": "a"}}'))


def test_a_missing_body_is_an_empty_one(user: User) -> None:
    found = problems(user.post("/v1/pods"))
    assert found == {"/name": "is required"}


def spec(**changes: Any) -> dict[str, Any]:
    return {**NEW, "spec": {"image": "debian:12", **changes}}


def needs(**changes: Any) -> dict[str, Any]:
    return {**NEW, "requirements": changes}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({**NEW, "name": ""}, "/name"),
        ({**NEW, "name": "   "}, "/name"),
        ({**NEW, "name": "x" * 65}, "/name"),
        ({**NEW, "name": "two\nlines"}, "/name"),
        ({**NEW, "name": 7}, "/name"),
        ({**NEW, "name": None}, "/name"),
        ({**NEW, "start": "yes"}, "/start"),
        ({**NEW, "start": 1}, "/start"),
        ({**NEW, "volume": {"id": "vol_1"}}, "/volume/id"),
        ({**NEW, "spec": []}, "/spec"),
        ({**NEW, "capture_rules": ["x"] * 101}, "/capture_rules"),
        ({**NEW, "capture_rules": ["a\nb"]}, "/capture_rules/0"),
        (spec(image="Debian 12"), "/spec/image"),
        (spec(image="a" * 256), "/spec/image"),
        (spec(startup_script="x" * 65537), "/spec/startup_script"),
        (spec(startup_script="ä" * 40_000), "/spec/startup_script"),
        (spec(startup_script="a\x00b"), "/spec/startup_script"),
        (spec(environment={f"V{i}": "" for i in range(65)}), "/spec/environment"),
        (spec(environment={"A": "x" * 4097}), "/spec/environment/A"),
        (spec(environment={f"V{i}": "x" * 4000 for i in range(20)}), "/spec/environment"),
        (spec(environment={"1A": "x"}), "/spec/environment/1A/[key]"),
        (spec(environment={"A": 1}), "/spec/environment/A"),
        (spec(ports=[0]), "/spec/ports/0"),
        (spec(ports=[65536]), "/spec/ports/0"),
        (spec(ports=["80"]), "/spec/ports/0"),
        (spec(ports=[True]), "/spec/ports/0"),
        (spec(ports=[80.5]), "/spec/ports/0"),
        (spec(ports=list(range(1, 12))), "/spec/ports"),
        (spec(ports=[80, 80]), "/spec/ports"),
        (spec(start_timeout_seconds=10**30), "/spec/start_timeout_seconds"),
        (needs(disk_gib=0), "/requirements/disk_gib"),
        (needs(disk_gib=10_001), "/requirements/disk_gib"),
        (needs(gpu_count=0), "/requirements/gpu_count"),
        (needs(gpu_count=17), "/requirements/gpu_count"),
        (needs(providers=["vastai", "vast"]), "/requirements/providers/1"),
        (needs(countries=["Germany"]), "/requirements/countries/0"),
        (needs(max_price_microusd_per_hour=0.5), "/requirements/max_price_microusd_per_hour"),
        ({**NEW, "a/b~c": 1}, "/a~1b~0c"),
    ],
)
def test_a_field_beyond_its_limits_is_named(user: User, body: dict[str, Any], where: str) -> None:
    assert list(problems(user.post("/v1/pods", body))) == [where]
    assert user.get("/v1/pods").json["data"] == []


def test_the_largest_pod_that_is_allowed_can_be_stored(user: User) -> None:
    body = spec(
        startup_script="x" * 65536,
        on_stop_script="y" * 65536,
        environment={f"V{i:02}": "z" * 1020 for i in range(64)},
    )
    reply = user.post("/v1/pods", body, headers={"Idempotency-Key": "big"})
    assert reply.status == 202
    assert user.post("/v1/pods", body, headers={"Idempotency-Key": "big"}).text == reply.text


def test_values_are_never_repeated_in_a_problem(user: User) -> None:
    body = spec(environment={"TOKEN": "s3cret" + "x" * 4097}, startup_script={"s3cret": 1})
    reply = user.post("/v1/pods", body)
    assert reply.status == 400
    assert "s3cret" not in reply.text


def test_many_problems_are_counted_and_the_first_are_listed(user: User) -> None:
    body = {**NEW, **{f"unknown{i}": 1 for i in range(50)}}
    reply = user.post("/v1/pods", body)
    assert "50 problems" in reply.json["detail"]
    assert len(reply.json["errors"]) == 20


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ({"limit": 0}, "query limit"),
        ({"limit": 101}, "query limit"),
        ({"limit": "many"}, "query limit"),
        ({"limit": [1, 2]}, "query limit"),
        ({"cursor": ""}, "query cursor"),
        ({"limti": 5}, "query limti"),
    ],
)
def test_query_parameters_are_checked_as_strictly(
    user: User, query: dict[str, Any], where: str
) -> None:
    assert list(problems(user.get("/v1/pods", query=query))) == [where]


def test_a_cursor_that_was_not_given_out_is_refused(user: User) -> None:
    assert user.get("/v1/pods", query={"cursor": "AAAA"}).code == "invalid_request"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_body_on_a_request_that_takes_none_means_nothing(user: User, method: str) -> None:
    path = f"/v1/pods/{user.post('/v1/pods', {**NEW, 'start': False}).json['id']}"
    headers = {"Content-Type": "multipart/form-data"}
    reply = user.deployment.call(method, path, "no json", token=user.token, headers=headers)
    assert reply.status in {200, 204}


def send_bytes(user: User, body: bytes) -> Reply:
    event = an_event("POST", "/v1/pods", base64.b64encode(body).decode())
    event["isBase64Encoded"] = True
    event["headers"]["authorization"] = f"Bearer {user.token}"
    return user.deployment.send(event)


def test_a_whole_number_may_be_written_with_a_point(user: User) -> None:
    reply = user.post("/v1/pods", '{"name": "a", "spec": {"image": "a", "ports": [80.0]}}')
    assert reply.json["spec"]["ports"] == [80]
