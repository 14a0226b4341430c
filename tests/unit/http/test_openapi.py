"""The API's description, its page, and the promise that they are true."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from podferry.http.openapi import describe, rendered
from tests.unit.http.deployment import Context, Reply, handler_of

DOCS = Path(__file__).parents[3] / "docs"
DOCUMENT = describe()
OPERATIONS = [
    (path, method, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]


def test_the_description_in_the_docs_is_up_to_date() -> None:
    stored = (DOCS / "openapi.json").read_text(encoding="utf-8")
    assert stored == rendered(), "run: python -m podferry.http.openapi"


def test_the_description_is_the_same_each_time() -> None:
    assert rendered() == rendered()


def test_every_schema_is_one() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        whole = {**schema, "components": DOCUMENT["components"]}
        jsonschema_rs.Draft202012Validator(whole)
        is_described = "description" in schema or "enum" in schema or name.startswith("PageView")
        assert is_described, f"{name} says nothing"


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_refusal_is_described_as_a_problem(path: str, method: str, operation: Any) -> None:
    responses = operation["responses"]
    assert {"400", "401", "403", "404", "500"} <= set(responses)
    for status, response in responses.items():
        types = set(response.get("content", {}))
        good = "text/csv" if path.endswith(".csv") else "application/json"
        expected = {good} if status < "300" else {"application/problem+json"}
        assert types == (set() if status == "204" else expected), f"{method} {path} {status}"


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_names_its_token_and_its_parameters(
    path: str, method: str, operation: Any
) -> None:
    [requirement] = operation["security"]
    assert set(requirement) <= set(DOCUMENT["components"]["securitySchemes"])
    assert operation["summary"].endswith(".")
    named = {p["name"]: p for p in operation.get("parameters", []) if p["in"] == "path"}
    assert set(named) == set(re.findall(r"\{(\w+)\}", path))
    assert all("pattern" in p["schema"] for p in named.values())
    takes_key = any(p["name"] == "Idempotency-Key" for p in operation.get("parameters", []))
    assert takes_key == (method == "post" and path.startswith("/v1/"))


def test_every_text_list_and_number_that_users_send_has_a_limit() -> None:
    unlimited = []
    for name, schema in DOCUMENT["components"]["schemas"].items():
        if name.endswith(("Body", "Patch")) and schema.get("additionalProperties") is False:
            unlimited += [f"{name}.{where}" for where in unlimited_in(schema["properties"])]
    assert unlimited == []


def unlimited_in(properties: dict[str, Any]) -> list[str]:
    limits = {"string": ("maxLength", "pattern", "enum"), "array": ("maxItems",),
              "integer": ("maximum",), "number": ("maximum",), "object": ("maxProperties",)}  # fmt: skip
    found = []
    for name, schema in properties.items():
        for choice in schema.get("anyOf", [schema]):
            needed = limits.get(choice.get("type", ""), ())
            if needed and not any(limit in choice for limit in needed):
                found.append(name)
    return found


def ask(path: str, method: str = "GET") -> Reply:
    http = {"method": method, "path": path}
    event = {"rawPath": path, "requestContext": {"requestId": "req-1", "http": http}}
    answer = handler_of("docs").handler(event, Context())
    return Reply(answer["statusCode"], answer["headers"], answer["body"])


def test_the_front_door_leads_to_the_docs() -> None:
    reply = ask("/")
    assert (reply.status, reply.headers["Location"]) == (302, "/docs")


def test_the_docs_are_one_page_that_loads_nothing_from_elsewhere() -> None:
    reply = ask("/docs")
    assert reply.status == 200
    assert reply.content_type.startswith("text/html")
    assert "/v1/pods/{pod_id}/start" in reply.text
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", reply.text)
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    assert len(reply.text) < 5_000_000  # a function's answer has at most 6 MB


def test_the_description_is_served_as_it_is_stored() -> None:
    assert json.loads(ask("/openapi.json").text) == DOCUMENT


@pytest.mark.parametrize(("path", "method", "status"), [("/nope", "GET", 404), ("/", "POST", 405)])
def test_the_docs_refuse_like_the_rest(path: str, method: str, status: int) -> None:
    reply = ask(path, method)
    assert (reply.status, reply.content_type) == (status, "application/problem+json")
