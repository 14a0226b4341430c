"""A control plane for the agent's tests: the agent API and presigned objects, over real HTTP.

It keeps everything in memory, checks what the real one checks, and can be told to misbehave.
"""

import base64
import hashlib
import itertools
import json
import os
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.agent.runtime.fake_objects import FakeObjects, Grant, checksum
from tests.agent.runtime.loopback import Loopback

BOOT_TOKEN = "pfb_mach_test_boot-secret-0123456789abcdef"
# Agents find their processes by it: two suites on one computer must not share it.
MACHINE_ID = f"mach_{os.getpid():026}"
EPOCH = 7

Json = dict[str, Any]


class RefusalError(Exception):
    def __init__(self, status: int, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.status, self.code, self.detail = status, code, detail


@dataclass
class Fault:
    """`action`: drop_response (done, but nobody hears of it), error, or slow."""

    method: str
    path: str
    action: str
    left: int
    status: int = 500
    seconds: float = 0.0


@dataclass
class SeenRequest:
    method: str
    path: str
    headers: dict[str, str]


@dataclass
class FakeControlPlane:
    """One machine's control plane. Public fields are what a test looks at or turns."""

    heartbeat_seconds: float = 0.05
    tls: ssl.SSLContext | None = None
    token_sha256: str = ""
    epoch_is_stale: bool = False
    redeliver_ended: bool = False
    registrations: list[Json] = field(default_factory=list)
    heartbeats: list[Json] = field(default_factory=list)
    commands: dict[str, Json] = field(default_factory=dict)
    progress: dict[str, list[Json]] = field(default_factory=dict)
    ended: dict[str, Json] = field(default_factory=dict)
    outputs: dict[str, dict[int, tuple[str, bytes]]] = field(default_factory=dict)
    commits: list[Json] = field(default_factory=list)
    seen: list[SeenRequest] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    save_interval_seconds: int | None = None  # without it the agent makes no saves of its own
    next_save: Callable[[], Json] = lambda: {"command": None, "in_seconds": 60.0}
    idle_signals: list[str] | None = None  # without them the agent does not watch its use
    next_notice: Callable[[Json], Json] = lambda _: {"command": None}
    notices: list[Json] = field(default_factory=list)
    host_key: str | None = None
    offered_host_keys: list[str] = field(default_factory=list)
    authorized_keys: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)  # by variable
    missing_secrets: list[str] = field(default_factory=list)
    unsettled: int = 0  # how many hand-ins still have to be repeated

    def __post_init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self._numbers = itertools.count(1)
        self._server = Loopback(type("Handler", (_Handler,), {"plane": self}), self.tls)
        self.url = self._server.url
        self.store = FakeObjects(self.url, self.changed)
        self._server.start()

    def close(self) -> None:
        self._server.close()

    @property
    def objects(self) -> dict[tuple[str, str], bytes]:
        """What was uploaded, by snapshot and name."""
        return self.store.bodies

    # What a test does.

    def enqueue(self, kind: str, args: Json | None = None, timeout_seconds: int = 30) -> str:
        with self.changed:
            command_id = f"cmd_{next(self._numbers):04d}"
            self.commands[command_id] = {
                "id": command_id,
                "kind": kind,
                "args": args or {},
                "timeout_seconds": timeout_seconds,
            }
            return command_id

    def wait_for(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        """The first true value of `condition`, looked at whenever something changed."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while not (value := condition()):
                left = deadline - time.monotonic()
                assert left > 0, f"not within {seconds} s; last beat: {self.heartbeats[-1:]}"
                self.changed.wait(min(left, 0.1))
            return value

    def wait_end(self, command_id: str, seconds: float = 60.0) -> Json:
        report: Json = self.wait_for(lambda: self.ended.get(command_id), seconds)
        return report

    def do(self, kind: str, args: Json | None = None, seconds: float = 60.0) -> Json:
        """Enqueue, wait, and return the result of a command that must succeed."""
        report = self.wait_end(self.enqueue(kind, args), seconds)
        assert report["state"] == "succeeded", report["error"]
        result: Json = report["result"]
        return result

    def fail(self, kind: str, args: Json | None = None, seconds: float = 60.0) -> Json:
        """The error of a command that must fail."""
        report = self.wait_end(self.enqueue(kind, args), seconds)
        assert report["state"] == "failed", report["result"]
        error: Json = report["error"]
        return error

    def output(self, command_id: str, stream: str) -> bytes:
        chunks = self.outputs.get(command_id, {})
        return b"".join(data for _, (name, data) in sorted(chunks.items()) if name == stream)

    def add_fault(self, method: str, path: str, action: str, **options: Any) -> Fault:
        fault = Fault(method, path, action, options.pop("count", 1), **options)
        with self.changed:
            self.faults.append(fault)
        return fault

    # The agent API.

    def answer(self, path: str, token: str, body: Json) -> Json:
        with self.changed:
            try:
                return self._route(path, token, body)
            finally:
                self.changed.notify_all()

    def _route(self, path: str, token: str, body: Json) -> Json:
        if path == "/agent/v1/register":
            return self._register(token, body)
        if hashlib.sha256(token.encode()).hexdigest() != self.token_sha256:
            raise RefusalError(401, "token_invalid")
        if self.epoch_is_stale:
            raise RefusalError(403, "epoch_stale", "this machine lost the pod")
        routes: dict[str, Callable[[Json], Json]] = {
            "/agent/v1/heartbeat": self._heartbeat,
            "/agent/v1/output": self._output,
            "/agent/v1/snapshots": lambda _: self.next_save(),
            "/agent/v1/notice": self._notice,
            "/agent/v1/uploads": self._uploads,
            "/agent/v1/downloads": self._downloads,
            "/agent/v1/commit": self._commit,
            "/agent/v1/host-key": self._host_key,
            "/agent/v1/secrets": lambda _: {
                "variables": self.secrets,
                "missing": self.missing_secrets,
            },
            "/agent/v1/ssh-keys": lambda _: {"authorized_keys": self.authorized_keys},
        }
        if path not in routes:
            raise RefusalError(404, "not_found")
        return routes[path](body)

    def _register(self, token: str, body: Json) -> Json:
        if token != BOOT_TOKEN or body["machine_id"] != MACHINE_ID:
            raise RefusalError(401, "token_invalid", "this boot token is unknown")
        if self.token_sha256 not in ("", body["token_sha256"]):
            raise RefusalError(409, "already_registered", "another agent holds this machine")
        self.token_sha256 = body["token_sha256"]
        self.registrations.append(body)
        return {
            "machine_id": MACHINE_ID,
            "epoch": EPOCH,
            "pod_id": "pod_test",
            "heartbeat_seconds": self.heartbeat_seconds,
        }

    def _heartbeat(self, body: Json) -> Json:
        self.heartbeats.append(body)
        forget = []
        for report in body["commands"]:
            if report["state"] == "running":
                if report["progress"]:
                    self.progress.setdefault(report["id"], []).append(report["progress"])
                continue
            self.ended[report["id"]] = report
            forget.append(report["id"])
        due = [c for c in self.commands.values() if self.redeliver_ended or not self._ended(c)]
        return {
            "heartbeat_seconds": self.heartbeat_seconds,
            "commands": due,
            "forget": forget,
            "save_interval_seconds": self.save_interval_seconds,
            "idle_signals": self.idle_signals,
        }

    def _notice(self, body: Json) -> Json:
        self.notices.append(body)
        return self.next_notice(body)

    def _host_key(self, body: Json) -> Json:
        if body["private_key"] is not None:
            self.offered_host_keys.append(body["private_key"])
            self.host_key = self.host_key or body["private_key"]
        return {"private_key": self.host_key}

    def _ended(self, command: Json) -> bool:
        return command["id"] in self.ended

    def _output(self, body: Json) -> Json:
        chunks = self.outputs.setdefault(body["command_id"], {})
        for chunk in body["chunks"]:
            data = base64.b64decode(chunk["data"])
            assert len(data) <= 64 * 1024
            present = chunks.setdefault(chunk["sequence"], (chunk["stream"], data))
            assert present == (chunk["stream"], data), "one sequence number, two contents"
        return {}

    def _uploads(self, body: Json) -> Json:
        assert 1 <= len(body["objects"]) <= 100
        uploads = []
        for item in body["objects"]:
            key = (body["snapshot_id"], item["name"])
            url = self.store.presign(Grant("PUT", key, item["sha256"], item["size"]))
            headers = {
                "x-amz-checksum-sha256": checksum(bytes.fromhex(item["sha256"])),
                "content-length": str(item["size"]),
                "if-none-match": "*",
            }
            uploads.append({"name": item["name"], "url": url, "headers": headers})
        return {"uploads": uploads}

    def _downloads(self, body: Json) -> Json:
        assert 1 <= len(body["objects"]) <= 100
        # Only a snapshot that is complete can be read, and the root of the one being written.
        outer = body["snapshot_id"]
        asks_own_root = body["objects"] == [{"snapshot_id": outer, "name": "root"}]
        assert asks_own_root or (outer, "root") in self.objects, f"{outer} is not complete"
        downloads = [
            {**item, "url": self.store.presign(Grant("GET", (item["snapshot_id"], item["name"])))}
            for item in body["objects"]
        ]
        return {"downloads": downloads}

    def _commit(self, body: Json) -> Json:
        root = self.objects[body["snapshot_id"], "root"]
        assert hashlib.sha256(root).hexdigest() == body["root"]["sha256"]
        self.commits.append(body)
        self.unsettled -= 1
        return {"is_settled": self.unsettled < 0}

    def take_fault(self, method: str, path: str) -> Fault | None:
        with self.changed:
            for fault in self.faults:
                if fault.left and fault.method == method and path.startswith(fault.path):
                    fault.left -= 1
                    return fault
            return None


class _Handler(BaseHTTPRequestHandler):
    plane: FakeControlPlane
    protocol_version = "HTTP/1.1"
    # Headers and body would otherwise go out in two packets and wait for each other.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self._serve(self._call)

    def do_PUT(self) -> None:
        self.plane.store.note_puts(1)
        try:
            self._serve(self._put)
        finally:
            self.plane.store.note_puts(-1)

    def do_GET(self) -> None:
        self._serve(self._get)

    def log_message(self, *_: object) -> None:
        """Quiet: tests read what was seen from the plane."""

    def _serve(self, work: Callable[[bytes], tuple[int, bytes]]) -> None:
        path = urlsplit(self.path).path
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.plane.seen.append(SeenRequest(self.command, path, headers))
        body = self.rfile.read(int(headers.get("content-length", 0)))
        fault = self.plane.take_fault(self.command, path)
        if fault is not None and fault.action == "slow":
            time.sleep(fault.seconds)
        if fault is not None and fault.action == "error":
            self._send(fault.status, b"")
            return
        status, content = work(body)
        if fault is not None and fault.action == "drop_response":
            self.close_connection = True
            return
        self._send(status, content)

    def _call(self, body: bytes) -> tuple[int, bytes]:
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        try:
            return 200, json.dumps(self.plane.answer(self.path, token, json.loads(body))).encode()
        except RefusalError as refusal:
            problem = {
                "type": "about:blank",
                "title": refusal.code,
                "status": refusal.status,
                "code": refusal.code,
                "detail": refusal.detail,
                "request_id": "req_test",
                "retryable": False,
                "errors": [],
            }
            return refusal.status, json.dumps(problem).encode()

    def _put(self, body: bytes) -> tuple[int, bytes]:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return self.plane.store.put(self._signature(), headers, body), b""

    def _get(self, _body: bytes) -> tuple[int, bytes]:
        found = self.plane.store.get(self._signature())
        if isinstance(found, int):
            return found, b""
        wanted = self.headers.get("range")
        if wanted is None:
            return 200, found
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        end = int(last) + 1 if last else len(found)
        return (206, found[int(first) : end]) if int(first) < len(found) else (416, b"")

    def _signature(self) -> str:
        return parse_qs(urlsplit(self.path).query).get("X-Amz-Signature", [""])[0]

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        try:
            self.wfile.write(content)
            self.wfile.flush()
        except ConnectionError:
            # The agent was killed while it waited.
            self.close_connection = True
