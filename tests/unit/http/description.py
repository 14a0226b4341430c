"""Holds every answer against the API's description: no status, type or body beside it."""

import re
from functools import cache
from typing import Any

import jsonschema_rs

from podferry.http.openapi import describe


@cache
def document() -> dict[str, Any]:
    return describe()


@cache
def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """The described operation that a request belongs to; `None` for what is no route."""
    for template, operations in document()["paths"].items():
        pattern = re.sub(r"\{\w+\}", "[^/]+", template)
        if re.fullmatch(pattern, path) and method.lower() in operations:
            found: dict[str, Any] = operations[method.lower()]
            return found
    return None


def check(method: str, path: str, status: int, content_type: str, body: Any) -> None:
    """Fail unless the description allows the answer."""
    operation = operation_of(method, path)
    if operation is None:
        return
    responses = operation["responses"]
    assert str(status) in responses, f"{method} {path} answers {status}, which is not described"
    content = responses[str(status)].get("content", {})
    if not content:
        assert body is None
        return
    assert content_type in content, f"{method} {path} {status} answers {content_type}"
    schema = content[content_type]["schema"]
    if schema == {"type": "string"}:
        assert isinstance(body, str)
        return
    validator_of(schema["$ref"]).validate(body)


@cache
def validator_of(reference: str) -> jsonschema_rs.Draft202012Validator:
    schema = {"$ref": reference, "components": document()["components"]}
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
