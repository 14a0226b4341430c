"""One plain address for the HTTP API.

MiniStack tells APIs apart by host name (`<id>.execute-api.localhost`), which does not resolve
everywhere. Everything that comes in on the front port goes to the deployed HTTP API.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

import json
from typing import Any

from ministack import app as ministack_app
from ministack.services import apigateway

from local.aws.settings import Settings
from local.aws.shims import guard


def apply(settings: Settings) -> None:
    """Puts the front door before the emulator's web application."""
    application = guard.take(ministack_app, "app")
    guard.take(apigateway, "_apis")

    async def front(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if not _came_by_front(scope, settings):
            await application(scope, receive, send)
            return
        apis = _apis(settings)
        if len(apis) != 1:
            await _refuse(send, apis)
            return
        await application(_addressed_to(apis[0]["apiId"], scope, settings), receive, send)

    guard.replace(ministack_app, "app", front)


def _came_by_front(scope: dict[str, Any], settings: Settings) -> bool:
    _, port = scope.get("server") or ("", None)
    return scope["type"] == "http" and port == settings.front_port


def _apis(settings: Settings) -> list[dict[str, Any]]:
    apis = [api for api in apigateway._apis._data.values() if api.get("protocolType") == "HTTP"]
    if settings.front_api is None:
        return apis
    return [api for api in apis if api.get("name") == settings.front_api]


def _addressed_to(api_id: str, scope: dict[str, Any], settings: Settings) -> dict[str, Any]:
    host = f"{api_id}.execute-api.localhost:{settings.port}".encode()
    original = dict(scope["headers"]).get(b"host", b"")
    others = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return scope | {"headers": [*others, (b"host", host), (b"x-forwarded-host", original)]}


async def _refuse(send: Any, apis: list[dict[str, Any]]) -> None:
    names = ", ".join(sorted(str(api.get("name")) for api in apis))
    detail = (
        f"several HTTP APIs are deployed ({names}): choose one with --front-api NAME"
        if apis
        else "no HTTP API is deployed yet (or none with the name given by --front-api)"
    )
    body = json.dumps({"title": "no API behind the front door", "status": 503, "detail": detail})
    headers = [(b"content-type", b"application/problem+json")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})
