"""The API's description (OpenAPI 3.1), made from the routes: `python -m podferry.http.openapi`.

The framework describes parameters, bodies and answers from the route functions' types. Added here
is what holds for every route: the Idempotency-Key, and that all refusals are problems.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.event_handler.openapi.models import HTTPBearer, Server, Tag

from podferry.http import error_list, replies
from podferry.http.surfaces import AGENT_ROUTES, ALL_OF_USERS

TITLE = "Podferry"
VERSION = "1"
DESCRIPTION = """\
GPU pods that outlive the machine they run on.

Refusals are `application/problem+json` (RFC 9457) with a stable `code`. Unknown fields are refused.
Lists are `{data, next_cursor}`. Long work answers 202 with an operation to follow, or, with
`Prefer: wait=<seconds>`, what became of it. A POST with an `Idempotency-Key` takes effect once
within 24 hours, however often it is sent. Money is in micro-USD, times are UTC.
"""
TAGS = {
    "pods": "Make, see, change and delete pods.",
    "running": "Start, stop and move pods, run commands in them, follow operations.",
    "snapshots": "Environments and their frozen states; proofs that a frozen state is whole.",
    "volumes": "Trees at /workspace, their history, forks and the trash.",
    "market": "What can be rented.",
    "accounts": "Accounts, API keys, SSH keys and keys at the providers.",
    "agent": "For the agents on rented machines; not for users.",
}
SCHEMES = {
    "api_key": "A key of an account: `pf_...`.",
    "operator_key": "The key that was made at deployment: `pf_admin_...`.",
    "boot_token": "The one-time token that a machine is booted with: `pfb_...`.",
    "machine_token": "The token that an agent registered: `pfm_...`.",
}
_FRAMEWORKS_OWN = ("HTTPValidationError", "ValidationError", "ResponseValidationError")
_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Any text of yours; the same key again is the same request.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": replies.PATTERN},
}

Json = dict[str, Any]


def describe() -> Json:
    """The whole description."""
    resolver = APIGatewayHttpResolver()
    for router in (*ALL_OF_USERS, *AGENT_ROUTES):
        resolver.include_router(router)
    schema = resolver.get_openapi_schema(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        servers=[Server(url="/")],
        tags=[Tag(name=name, description=text) for name, text in TAGS.items()],
        security_schemes={
            name: HTTPBearer(scheme="bearer", description=text) for name, text in SCHEMES.items()
        },
    )
    document: Json = json.loads(schema.model_dump_json(by_alias=True, exclude_none=True))
    for method, operation in _operations(document):
        _mend(method, operation)
    for name in _FRAMEWORKS_OWN:
        document["components"]["schemas"].pop(name, None)
    described: Json = _with_whole_numbers(document)
    return described


def rendered() -> str:
    """The description as it is stored: the same routes always give the same text."""
    return json.dumps(describe(), indent=2, sort_keys=True) + "\n"


def _operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path in document["paths"].values():
        yield from path.items()


def _mend(method: str, operation: Json) -> None:
    refused = operation["responses"].get("422", {}).get("content", {})
    if "application/problem+json" not in refused:
        operation["responses"].pop("422", None)
    parameters = [_mended_parameter(p) for p in operation.get("parameters", [])]
    if method == "post" and "agent" not in operation["tags"]:
        parameters.append(_KEY_PARAMETER)
    if parameters:
        operation["parameters"] = parameters
    for media in operation.get("requestBody", {}).get("content", {}).values():
        media["schema"].pop("default", None)


def _mended_parameter(parameter: Json) -> Json:
    """A parameter that may be left out is not one that may be `null`: a URL has no `null`."""
    schema = parameter["schema"]
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        schema = {**rest, **choices[0]}
    return {**parameter, "schema": schema}


def _with_whole_numbers(value: Any) -> Any:
    """The framework writes the limits of integers as `100.0`."""
    match value:
        case dict():
            return {name: _with_whole_numbers(item) for name, item in value.items()}
        case list():
            return [_with_whole_numbers(item) for item in value]
        case float() if value.is_integer():
            return int(value)
    return value


def main() -> None:
    """Write both generated pages into `docs/` of the checkout that this is run in."""
    Path("docs/openapi.json").write_text(rendered(), encoding="utf-8")
    Path("docs/errors.md").write_text(error_list.rendered(), encoding="utf-8")


if __name__ == "__main__":
    main()
