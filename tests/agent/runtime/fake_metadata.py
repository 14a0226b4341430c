"""A cloud's metadata service on loopback, with the paths and headers of the real ones."""

from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.agent.runtime.loopback import Loopback

EC2_TOKEN = "imds-session-token"


@dataclass
class FakeMetadata:
    """`cloud` is `ec2`, `gce` or another; `values` maps paths to bodies, whatever is not there is 404."""

    cloud: str
    values: dict[str, str] = field(default_factory=dict)
    seen: list[tuple[str, str]] = field(default_factory=list)
    has_expired_token: bool = False

    def __post_init__(self) -> None:
        self._server = Loopback(type("Handler", (_Handler,), {"service": self}))
        self.url = self._server.url
        self._server.start()

    def close(self) -> None:
        self._server.close()

    def answer(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        self.seen.append((method, path))
        clouds = {"ec2": self._ec2, "gce": self._gce}
        return clouds[self.cloud](method, path, headers) if self.cloud in clouds else (404, "")

    def _ec2(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        if (method, path) == ("PUT", "/latest/api/token"):
            is_asked = headers.get("x-aws-ec2-metadata-token-ttl-seconds", "").isdigit()
            return (200, EC2_TOKEN) if is_asked else (400, "")
        if headers.get("x-aws-ec2-metadata-token") != EC2_TOKEN or self.has_expired_token:
            self.has_expired_token = False
            return 401, ""
        return self._value(path)

    def _gce(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        if method != "GET":
            return 405, ""
        return self._value(path) if headers.get("metadata-flavor") == "Google" else (403, "")

    def _value(self, path: str) -> tuple[int, str]:
        return (200, self.values[path]) if path in self.values else (404, "")


class _Handler(BaseHTTPRequestHandler):
    service: FakeMetadata

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, body = self.service.answer(self.command, self.path, headers)
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Quiet: tests read `seen`."""
