"""Functions of the test app."""

import json
import os
import time
from functools import cache
from typing import Any

import boto3
import greeting  # type: ignore[import-not-found]  # comes from the layer
from botocore.config import Config

Event = dict[str, Any]
SIGNATURES = {"s3": "s3v4"}


class CaptureFailedError(Exception):
    """Its class name must reach the workflow."""


def probe(event: Event, _context: object) -> Any:
    """Calls AWS with the function's own role: {"service", "method", "arguments"}."""
    client = _client(event["service"])
    if event["method"] == "generate_presigned_url":
        return client.generate_presigned_url(**event["arguments"])
    try:
        answer = getattr(client, event["method"])(**event["arguments"])
    except client.exceptions.ClientError as refused:
        return {"error": refused.response["Error"]["Code"], "message": str(refused)}
    return json.loads(json.dumps(answer, default=_plain))


@cache
def _client(service: str) -> Any:
    # The default for signed S3 URLs is still the old version 2, which signs no headers.
    make: Any = boto3.client
    return make(service, config=Config(signature_version=SIGNATURES.get(service)))


def _plain(value: Any) -> Any:
    return value.read().decode() if hasattr(value, "read") else str(value)


def api(event: Event, _context: object) -> Event:
    authorizer = event["requestContext"].get("authorizer", {})
    body = {
        "path": event["rawPath"],
        "method": event["requestContext"]["http"]["method"],
        "query": event.get("queryStringParameters"),
        "headers": event["headers"],
        "authorizer": authorizer,
        "layer": greeting.WORD,
        "pid": os.getpid(),
        "secrets": sorted(name for name in os.environ if name.startswith("CANARY")),
    }
    return {
        "statusCode": 200,
        "headers": {"content-type": "application/json"},
        "body": json.dumps(body),
    }


def authorize(event: Event, _context: object) -> Event:
    token = event["headers"].get("authorization", "")
    return {
        "isAuthorized": token == "Bearer good",
        "context": {"account_id": "acct_1", "scopes": "pods:read pods:write"},
    }


def step(event: Event, _context: object) -> Any:
    match event["do"]:
        case "echo":
            return {"got": event.get("value"), "execution": event.get("execution")}
        case "fail":
            raise CaptureFailedError(event.get("why", "no disk"))
        case "sleep":
            time.sleep(event["seconds"])
            return {"slept": event["seconds"]}
        case "hand_over":
            _store(event["name"], "token", {"token": {"S": event["token"]}})
            return {"ignored": True}
        case "tick":
            _store("tick", "last", {"at": {"N": str(int(time.time()))}})
            return {}
        case unknown:
            raise ValueError(unknown)


def _store(name: str, kind: str, values: dict[str, Any]) -> None:
    item = {"pk": {"S": name}, "sk": {"S": kind}} | values
    _client("dynamodb").put_item(TableName=os.environ["TABLE"], Item=item)
