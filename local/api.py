"""A small client of Podferry's HTTP API, for the demo, the tests and the set-up of a stack."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx

POLL_SECONDS = 0.3


class ApiError(Exception):
    """An answer that is not success; `problem` is its problem+json body."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('code')}: {problem.get('detail')}")
        self.status = status
        self.problem = problem

    @property
    def code(self) -> str:
        return str(self.problem.get("code"))


class OperationFailedError(Exception):
    """An operation that was waited for ended badly; `operation` is its view."""

    def __init__(self, operation: dict[str, Any]) -> None:
        super().__init__(f"{operation['kind']} {operation['state']}: {operation.get('error')}")
        self.operation = operation


class Api:
    """One account's (or the operator's) view of one deployment."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(60.0, connect=5.0),
            trust_env=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return self.call("GET", path, params=query)

    def post(self, path: str, body: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """POST with a fresh Idempotency-Key unless one is given as `idempotency_key`."""
        key = headers.pop("idempotency_key", None) or uuid.uuid4().hex
        return self.call("POST", path, json=body or {}, headers={"Idempotency-Key": key, **headers})

    def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The JSON answer.

        Raises:
            ApiError: the status is 400 or above.
        """
        answer = self._client.request(method, path, **options)
        body: dict[str, Any] = answer.json() if answer.content else {}
        if answer.status_code >= 400:
            raise ApiError(answer.status_code, body)
        return body

    def watch(self, operation_id: str, seconds: float) -> Iterator[dict[str, Any]]:
        """The operation's view again and again until it has ended.

        Raises:
            TimeoutError: it is still running after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while True:
            operation = self.get(f"/v1/operations/{operation_id}")
            yield operation
            if operation["state"] != "running":
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{operation_id} still runs after {seconds:.0f} s: {operation}")
            time.sleep(POLL_SECONDS)

    def wait(self, operation_id: str, seconds: float = 120.0) -> dict[str, Any]:
        """The operation once it has succeeded.

        Raises:
            OperationFailedError: it ended otherwise.
            TimeoutError: it is still running after `seconds`.
        """
        *_, operation = self.watch(operation_id, seconds)
        if operation["state"] != "succeeded":
            raise OperationFailedError(operation)
        return operation
