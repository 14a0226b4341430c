"""A whole control plane in memory behind the real handlers' fronts, spoken to in HTTP."""

import importlib.util
import json
import re
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, urlencode

from aws_lambda_powertools.utilities.typing import LambdaContext

from podferry.adapters.memory.key_vault import MemoryKeyVault
from podferry.adapters.memory.objects import MemoryBundle, MemoryObjects
from podferry.adapters.memory.registries import MemoryRegistries
from podferry.adapters.memory.store import MemoryStore
from podferry.adapters.memory.surroundings import (
    FixedOperatorKey,
    ManualClock,
    MemorySchedules,
    MemorySignals,
    SeededRandomness,
)
from podferry.adapters.memory.workflows import MemoryWorkflows
from podferry.bootstrap import Application
from podferry.domain.account import Account, ApiKey
from podferry.http.front import Front
from podferry.http.identity import authorize
from podferry.ports.gpu_cloud import GpuClouds
from tests.unit.http.clouds import ListedClouds
from tests.unit.http.description import check

FUNCTIONS = Path(__file__).parents[3] / "functions"
OPERATOR = "pf_admin_test"
LIBRARY = re.compile(
    r"POST /v1/pods/[^/]+/(?:keep|share)"
    r"|GET /v1/snapshots/[^/]+/(?:entries|content|changes|package-changes)"
)
"""What the function `library` answers."""


class MemoryPorts:
    """Ports whose state ends with the test."""

    def __init__(self, clouds: GpuClouds | None = None) -> None:
        self.store = MemoryStore()
        self.objects = MemoryObjects()
        self.bundle = MemoryBundle()
        self.workflows = MemoryWorkflows()
        self.clouds: GpuClouds = clouds or ListedClouds([])
        self.key_vault = MemoryKeyVault()
        self.secret_vault = MemoryKeyVault()
        self.registries = MemoryRegistries()
        self.schedules = MemorySchedules()
        self.signals = MemorySignals()
        self.operator_key = FixedOperatorKey(OPERATOR)
        self.clock = ManualClock()
        self.randomness = SeededRandomness()
        self.deployment_id = "00000000"
        self.api_url = "https://api.example"
        self.aws_account = "123456789012"
        self.boot_script = "exit 1"


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "")

    @property
    def code(self) -> str:
        """Of a problem."""
        assert self.content_type == "application/problem+json", self.text
        return str(self.json["code"])


class Context(LambdaContext):
    """What a function is called with."""

    def __init__(self, seconds: float = 29.0) -> None:
        self._aws_request_id = "11111111-2222-3333-4444-555555555555"
        self.seconds = seconds

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]  # theirs is static
        return int(self.seconds * 1000)


@cache
def handler_of(name: str) -> ModuleType:
    """The function's handler module, loaded from its file as the runtime does it."""
    spec = importlib.util.spec_from_file_location(
        f"{name}_handler", FUNCTIONS / name / "handler.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Deployment:
    """Takes requests as the gateway does: authorizer first, then the function of the route."""

    ports: MemoryPorts = field(default_factory=MemoryPorts)
    context: Context = field(default_factory=Context)
    pauses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.use = Application(self.ports)

    def pause(self, seconds: float) -> None:
        """A `sleep` that only makes time pass."""
        self.pauses.append(seconds)
        self.context.seconds -= seconds

    def front_of(self, method: str, path: str) -> Front:
        name = "api"
        if path.startswith("/agent/v1/"):
            name = "agent_api"
        elif path.startswith("/v1/provider-keys"):
            name = "provider_keys"
        elif LIBRARY.fullmatch(f"{method} {path}"):
            name = "library"
        elif path.startswith("/v1/secrets"):
            name = "secrets"
        elif method == "GET" and path in {"/v1/offers", "/v1/providers"}:
            name = "market"
        front: Front = handler_of(name).front
        return replace(front, pause=self.pause)

    def send(self, event: dict[str, Any]) -> Reply:
        """Let the functions answer an event of the gateway."""
        verdict = authorize(event, self.use.identify)
        assert verdict["isAuthorized"] is True
        event["requestContext"]["authorizer"] = {"lambda": verdict["context"]}
        http = event["requestContext"]["http"]
        front = self.front_of(http["method"], event["rawPath"])
        answer = front.answer(event, self.context, self.use)
        reply = Reply(answer["statusCode"], answer["headers"], answer["body"] or "")
        is_json = "json" in reply.content_type
        body = (reply.json if is_json else reply.text) if reply.text else None
        check(http["method"], event["rawPath"], reply.status, reply.content_type, body)
        return reply

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Send a request whose body is `body` as JSON (`bytes` and `str` go as they are)."""
        event = an_event(method, path, body, query=query, headers=headers)
        if token is not None:
            event["headers"]["authorization"] = f"Bearer {token}"
        return self.send(event)

    def an_account(self, name: str = "acme") -> "User":
        account, key, token = self.use.accounts.create(name)
        return User(self, account, key, token)


@dataclass
class User:
    """Somebody with an account and its first key."""

    deployment: Deployment
    account: Account
    key: ApiKey
    token: str

    def get(self, path: str, **options: Any) -> Reply:
        return self.deployment.call("GET", path, token=self.token, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.deployment.call("POST", path, body, token=self.token, **options)

    def patch(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.deployment.call("PATCH", path, body, token=self.token, **options)

    def put(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.deployment.call("PUT", path, body, token=self.token, **options)

    def delete(self, path: str, **options: Any) -> Reply:
        return self.deployment.call("DELETE", path, token=self.token, **options)


def an_event(
    method: str,
    path: str,
    body: Any = None,
    *,
    query: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """An HTTP API event, payload format 2.0."""
    raw_query = urlencode(query or {}, doseq=True)
    joined: dict[str, str] = {}
    for name, value in parse_qsl(raw_query, keep_blank_values=True):
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "ANY /v1/{proxy+}",
        "rawPath": path,
        "rawQueryString": raw_query,
        "headers": {"host": "api.example"},
        "requestContext": {
            "requestId": "req-1",
            "stage": "$default",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "10.0.0.1",
            },
        },
        "isBase64Encoded": False,
    }
    if joined:
        event["queryStringParameters"] = joined
    if body is not None:
        event["headers"]["content-type"] = "application/json"
        event["body"] = body if isinstance(body, str) else json.dumps(body)
    event["headers"].update({name.lower(): value for name, value in (headers or {}).items()})
    return event
