"""A proxy on loopback that misuses the HTTP traffic of one link: between an agent, a provider, the
store or a user and the control plane.

A request that passes is forwarded as it is, over a connection of its own. What strikes it depends
on the troubles of the link and on nothing else, so a link without trouble is only a detour.
"""

import contextlib
import http.client
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

LONGEST_ANSWER_SECONDS = 90.0
LONGEST_HOLD_SECONDS = 1.0
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "expect", "te", "upgrade"}
)


class Mischief(StrEnum):
    """What can happen to a request."""

    CUT = "cut"
    """It never arrives; its sender sees the connection break."""
    SWALLOW = "swallow"
    """It arrives and works; the answer never comes."""
    DELAY = "delay"
    REPEAT = "repeat"
    """It arrives twice; the second answer counts."""
    ECHO = "echo"
    """It is answered, and arrives once more a little later."""
    REORDER = "reorder"
    """It is held back until one that came later has been answered."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A mischief that strikes a share of the requests until `until` (monotonic)."""

    mischief: Mischief
    until: float
    share: float
    seconds: float
    """How long a delayed request waits, or how late an echo comes."""


@dataclass(frozen=True, slots=True)
class Message:
    """A request or an answer; `head` is its first line without the version."""

    head: tuple[str, ...]
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Link:
    """One proxied address. Methods may be called from any thread."""

    def __init__(self, name: str, target: Callable[[], str]) -> None:
        self.name = name
        self._target = target
        self._troubles: list[Trouble] = []
        self._dice = random.Random(name)
        self._lock = threading.Lock()
        self._answered = threading.Condition()
        self.held = 0
        """Requests that were held back so far."""
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its address, with the path that its target has."""
        return f"http://127.0.0.1:{self.port}{urlsplit(self._target()).path}"

    def trouble(self, mischief: Mischief, seconds: float, share: float, delay: float) -> None:
        """Let a mischief strike `share` of the requests of the next `seconds`."""
        until = time.monotonic() + seconds
        with self._lock:
            self._troubles.append(Trouble(mischief, until, share, delay))

    def clear(self, seed: int) -> None:
        """End all troubles; the dice of the next ones begin with `seed`."""
        with self._lock:
            self._troubles.clear()
            self._dice = random.Random(f"{self.name}-{seed}")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def strikes(self) -> dict[Mischief, float]:
        """What happens to the next request, and for how long."""
        with self._lock:
            now = time.monotonic()
            self._troubles = [each for each in self._troubles if each.until > now]
            return {
                each.mischief: each.seconds
                for each in self._troubles
                if self._dice.random() < each.share
            }

    def hold(self) -> None:
        """Wait until another request has been answered."""
        with self._answered:
            self.held += 1
            self._answered.wait(LONGEST_HOLD_SECONDS)

    def forward(self, request: Message) -> Message:
        """The target's answer.

        Raises:
            OSError, http.client.HTTPException: there is none.
        """
        address = urlsplit(self._target())
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=LONGEST_ANSWER_SECONDS
        )
        try:
            method, path = request.head
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers:
                connection.putheader(name, value)
            connection.endheaders(request.body)
            answer = connection.getresponse()
            head = (str(answer.status), answer.reason)
            return Message(head, tuple(answer.getheaders()), answer.read())
        finally:
            connection.close()
            with self._answered:
                self._answered.notify_all()

    def echo(self, request: Message, seconds: float) -> None:
        """Forward it once more, later; nobody hears the answer."""

        def late() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.forward(request)

        timer = threading.Timer(seconds, late)
        timer.daemon = True
        timer.start()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, link: Link) -> None:
        self.link = link
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients hang up, and so do we."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _pass_on(self) -> None:
        request = self._request()
        answer = self._answer(request)
        if answer is None:
            self.close_connection = True
            return
        self._send(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, *_: object) -> None:
        """The log of a run tells of troubles, not of requests."""

    def _request(self) -> Message:
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        return Message((self.command, self.path), self._kept(body), body)

    def _kept(self, body: bytes) -> tuple[tuple[str, str], ...]:
        kept = [(n, v) for n, v in self.headers.items() if n.lower() not in _HOP_BY_HOP]
        if body or self.command in {"POST", "PUT", "PATCH"}:
            kept.append(("content-length", str(len(body))))
        return (*kept, ("connection", "close"))

    def _answer(self, request: Message) -> Message | None:
        """The answer to send, `None` to break the connection."""
        link = self.server.link
        strikes = link.strikes()
        if Mischief.CUT in strikes:
            return None
        time.sleep(strikes.get(Mischief.DELAY, 0.0))
        if Mischief.REORDER in strikes:
            link.hold()
        try:
            answer = link.forward(request)
            if Mischief.REPEAT in strikes:
                answer = link.forward(request)
        except (OSError, http.client.HTTPException):
            return None
        if Mischief.ECHO in strikes:
            link.echo(request, strikes[Mischief.ECHO])
        return None if Mischief.SWALLOW in strikes else answer

    def _send(self, answer: Message) -> None:
        status, reason = answer.head
        self.send_response_only(int(status), reason)
        length = str(len(answer.body))
        for name, value in answer.headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("content-length", length)
        self.end_headers()
        self.wfile.write(answer.body)
