"""A container registry on this machine: the part of the distribution API that digests are read by.

    HEAD, GET /v2/<repository>/manifests/<tag or digest>     401 without a token, as public ones do
    GET /token?service=...&scope=repository:<repository>:pull

It stands for every registry, and has every image but those that `local.boxes.base` has not: an
image is a name here, for all of them are the one base that the boxes share. What a tag stands for
is an index of two platforms, as usual; a test can let it stand for another (`move`).
"""

import hashlib
import json
import re
import secrets
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from local.boxes.base import ImageNotFoundError, check_image

_MANIFEST = re.compile(r"/v2/(?P<repository>[a-z0-9._/-]+)/manifests/(?P<reference>[^/]+)")
_INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(slots=True)
class Catalog:
    """What the registry has, and how it misbehaves."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    moves: dict[str, int] = field(default_factory=dict)
    """By `repository:tag`, how often the tag was given to another image."""
    private: set[str] = field(default_factory=set)
    """Repositories for which nobody gets a token."""
    status: HTTPStatus | None = None
    """What every question is answered with."""
    says_digest: bool = True
    challenge: str | None = None
    """Instead of where tokens are really had."""
    asked: list[str] = field(default_factory=list)

    def move(self, name: str) -> None:
        """From now on the tag (`library/debian:12`) stands for another image."""
        self.moves[name] = self.moves.get(name, 0) + 1

    def manifest(self, repository: str, tag: str) -> bytes:
        """The index that the tag stands for.

        Raises:
            ImageNotFoundError: there is none.
        """
        name = f"{repository}:{tag}"
        check_image(name)
        platforms = [
            {
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "digest": f"sha256:{_sha256(f'{name} {machine} {self.moves.get(name, 0)}')}",
                "size": 1024,
                "platform": {"architecture": machine, "os": "linux"},
            }
            for machine in ("amd64", "arm64")
        ]
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": platforms}
        return json.dumps(index, sort_keys=True).encode()


class Registry:
    """The server, in threads of this process; on another port if the wanted one is taken."""

    def __init__(self, port: int = 0) -> None:
        self.catalog = Catalog()
        handler = type("Handler", (_Handler,), {"catalog": self.catalog})
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError:
            self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="registry", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    catalog: ClassVar[Catalog]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer_request()

    def do_HEAD(self) -> None:
        self._answer_request()

    def log_message(self, *_: object) -> None:
        """It has no log of its own."""

    def _answer_request(self) -> None:
        url = urlsplit(self.path)
        self.catalog.asked.append(f"{self.command} {url.path}")
        if self.catalog.status is not None:
            self._send(self.catalog.status)
        elif url.path == "/token":
            self._give_token(parse_qs(url.query))
        elif (found := _MANIFEST.fullmatch(url.path)) is None:
            self._send(HTTPStatus.NOT_FOUND)
        elif self.headers.get("Authorization") != f"Bearer {self.catalog.token}":
            self._challenge(found["repository"])
        else:
            self._give_manifest(found["repository"], found["reference"])

    def _challenge(self, repository: str) -> None:
        host = self.headers.get("Host", "")
        scope = f"repository:{repository}:pull"
        value = f'Bearer realm="http://{host}/token",service="{host}",scope="{scope}"'
        shown = self.catalog.challenge or value
        self._send(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": shown})

    def _give_token(self, query: dict[str, list[str]]) -> None:
        repository = query.get("scope", [""])[0].removeprefix("repository:").removesuffix(":pull")
        if repository in self.catalog.private:
            self._send(HTTPStatus.FORBIDDEN)
            return
        body = json.dumps({"token": self.catalog.token}).encode()
        self._send(HTTPStatus.OK, {"Content-Type": "application/json"}, body)

    def _give_manifest(self, repository: str, tag: str) -> None:
        try:
            body = self.catalog.manifest(repository, tag)
        except ImageNotFoundError:
            self._send(HTTPStatus.NOT_FOUND)
            return
        headers = {"Content-Type": _INDEX}
        if self.catalog.says_digest:
            headers["Docker-Content-Digest"] = f"sha256:{hashlib.sha256(body).hexdigest()}"
        self._send(HTTPStatus.OK, headers, body)

    def _send(
        self, status: HTTPStatus, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
