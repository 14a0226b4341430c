"""The agent's only way to the control plane: JSON over HTTP(S) with typed errors and retries."""

import json
import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import certifi
import urllib3

from podferry_agent.errors import (
    ApiError,
    ApiUnreachableError,
    EpochStaleError,
    StoppingError,
    TokenInvalidError,
)
from podferry_agent.redaction import redact
from podferry_agent.retry import Backoff

_LOG = logging.getLogger(__name__)
_RETRYABLE_STATUS = frozenset({408, 425, 429})


# The lines of a request and of its answer, about as long as ours are.
_HEADER_BYTES = 2048


class MeteredPool(urllib3.PoolManager):
    """Counts what the agent itself moves: it is no sign that anybody uses the box."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._count_lock = threading.Lock()
        self.moved_bytes = 0

    def urlopen(
        self, method: str, url: str, *arguments: Any, **options: Any
    ) -> urllib3.BaseHTTPResponse:
        answered = 0
        try:
            response = super().urlopen(method, url, *arguments, **options)
            answered = len(response.data)
            return response
        finally:
            with self._count_lock:
                self.moved_bytes += len(options.get("body") or b"") + answered + _HEADER_BYTES


def build_pool(ca_pem: str | None, connections: int) -> MeteredPool:
    """TLS is checked against the bundle's own CA list plus the operator's extra CA.

    The box's CA list is the user's: a restore may replace or remove it.
    """
    context = ssl.create_default_context(cafile=certifi.where())
    if ca_pem:
        context.load_verify_locations(cadata=ca_pem)
    return MeteredPool(
        num_pools=8,
        maxsize=connections,
        block=False,
        retries=False,
        ssl_context=context,
    )


@dataclass(frozen=True, slots=True)
class ApiSettings:
    base_url: str
    retry_seconds: float
    retry_max_seconds: float


class ApiClient:
    """Posts one JSON body and returns the JSON answer.

    The token goes to `base_url` only: redirects are not followed, and objects are moved by
    another client (`transfer`), which has no token.
    """

    def __init__(
        self,
        settings: ApiSettings,
        pool: urllib3.PoolManager,
        stopping: threading.Event,
        on_epoch_stale: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._stopping = stopping
        self._on_epoch_stale = on_epoch_stale
        self.token = ""

    def new_backoff(self) -> Backoff:
        return Backoff(self._settings.retry_seconds, self._settings.retry_max_seconds)

    def post(
        self,
        path: str,
        body: dict[str, object],
        cancelled: threading.Event | None = None,
    ) -> object:
        """Try until there is a final answer.

        Raises:
            ApiError: The control plane refused; another try would not help.
            StoppingError: The agent ends, or `cancelled` was set.
        """
        backoff = self.new_backoff()
        while True:
            if self._stopping.is_set() or (cancelled is not None and cancelled.is_set()):
                raise StoppingError("stopped before the control plane answered")
            try:
                return self.post_once(path, body)
            except ApiUnreachableError as error:
                _LOG.warning("request_failed", extra={"path": path, "reason": str(error)})
                backoff.wait(cancelled or self._stopping, error.retry_after_seconds)

    def post_once(self, path: str, body: dict[str, object]) -> object:
        """One try.

        Raises:
            ApiError: As `post`.
            ApiUnreachableError: No answer, 429 or 5xx.
        """
        try:
            response = self._pool.request(
                "POST",
                self._settings.base_url + path,
                body=json.dumps(body).encode(),
                headers=self._headers(),
                redirect=False,
                timeout=urllib3.Timeout(connect=10, read=35),
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiUnreachableError(redact(f"{type(error).__name__}: {error}")) from error
        return self._answer(response)

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        return headers

    def _answer(self, response: urllib3.BaseHTTPResponse) -> object:
        status = response.status
        if status >= 500 or status in _RETRYABLE_STATUS:
            raise ApiUnreachableError(f"HTTP {status}", _retry_after(response))
        if 200 <= status < 300:
            try:
                return json.loads(response.data or b"{}")
            except ValueError as error:
                # A proxy that answers 200 with a page of its own is an outage, not an answer.
                raise ApiUnreachableError("the answer is not JSON") from error
        refusal = _problem(status, response.data)
        if isinstance(refusal, EpochStaleError):
            self._on_epoch_stale()
        raise refusal


def _retry_after(response: urllib3.BaseHTTPResponse) -> float | None:
    text = response.headers.get("retry-after", "")
    return min(float(text), 60.0) if text.isdigit() else None


def _problem(status: int, body: bytes) -> ApiError:
    code, detail = f"http_{status}", "no problem document"
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if isinstance(problem, dict):
        code = str(problem.get("code") or code)
        detail = str(problem.get("detail") or problem.get("title") or "")
    if status == 401:
        return TokenInvalidError(status, code, detail)
    if status == 403 and code == "epoch_stale":
        return EpochStaleError(status, code, detail)
    return ApiError(status, code, detail)
