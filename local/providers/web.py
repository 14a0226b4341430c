"""A small threaded HTTP server for the simulators: requests in, responses out, loopback only."""

from __future__ import annotations

import json
import re
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

_LOOPBACK = "127.0.0.1"
_LARGEST_BODY = 4 * 1024 * 1024


class DropConnectionError(Exception):
    """Close the connection without an answer, as a provider that timed out."""


class BadJSONError(ValueError):
    """The body is not JSON."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def bearer_token(self) -> str | None:
        """The token of its authorisation header; None without one."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" and token else None

    def json(self) -> Any:
        """Decode the body.

        Raises:
            BadJSONError: it is not JSON.
        """
        try:
            return json.loads(self.body or b"null")
        except ValueError as error:
            raise BadJSONError(str(error)) from error

    def json_object(self) -> dict[str, Any]:
        """Decode a body that must be an object; no body counts as an empty one.

        Raises:
            BadJSONError: it is something else.
        """
        value = {} if not self.body else self.json()
        if not isinstance(value, dict):
            raise BadJSONError("the body must be a JSON object")
        return value


@dataclass(frozen=True, slots=True)
class Response:
    """One answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


def json_response(status: int, value: object) -> Response:
    return Response(status, json.dumps(value).encode())


def text_response(status: int, text: str) -> Response:
    return Response(status, text.encode(), "text/plain; charset=utf-8")


Handler = Callable[..., Response]
"""Takes the request and the groups of the route's pattern."""


@dataclass(frozen=True, slots=True)
class Match:
    """What a router found for a request."""

    handler: Handler | None
    groups: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    """Methods that the path knows, where this one is not among them."""


class Router:
    """Finds the handler of a request by method and path."""

    def __init__(self, routes: Sequence[tuple[str, str, Handler]]) -> None:
        self._routes = [(method, re.compile(path), handler) for method, path, handler in routes]

    def find(self, method: str, path: str) -> Match:
        allowed = []
        for known, pattern, handler in self._routes:
            found = pattern.fullmatch(path)
            if found and known == method:
                return Match(handler, found.groups())
            if found:
                allowed.append(known)
        return Match(None, allowed=tuple(allowed))


class Application(Protocol):
    """What the server serves."""

    def handle(self, request: Request) -> Response: ...


class Server(ThreadingHTTPServer):
    """Serves one application on a loopback port; port 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 128
    # A restarted simulator takes its old port at once.
    allow_reuse_address = True

    def __init__(self, application: Application, port: int = 0) -> None:
        self.application = application
        super().__init__((_LOOPBACK, port), _Handler)

    @property
    def url(self) -> str:
        return f"http://{_LOOPBACK}:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that hang up; everything else goes to standard error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "simulator"
    sys_version = ""
    # Headers and body go out in two writes; without this the second waits for an acknowledgement.
    disable_nagle_algorithm = True
    server: Server

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        if length > _LARGEST_BODY:
            # Read it all the same: a client that still sends would not see the answer.
            while length > 0:
                length -= len(self.rfile.read(min(length, _LARGEST_BODY)) or b"x" * length)
            self._send(text_response(413, "Request Entity Too Large"))
            self.close_connection = True
            return
        request = Request(
            method=self.command,
            path=parts.path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )
        try:
            response = self.server.application.handle(request)
        except DropConnectionError:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        except Exception:  # noqa: BLE001 - the edge; a dropped connection would mean something else
            traceback.print_exc()
            response = text_response(500, "The simulator itself is broken; see its standard error")
        self._send(response)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve  # noqa: N815

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        has_body = response.status != 204
        if has_body:
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if has_body:
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Requests are not logged: they carry keys and tokens."""
