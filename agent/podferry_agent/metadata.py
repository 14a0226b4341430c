"""What a cloud's metadata service tells a machine about its end."""

import json
import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import urllib3

from podferry_agent.wire import Notice

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 5.0
_REQUEST_SECONDS = 1.0
_GCE_RECLAIM_SECONDS = 30.0


class _SilentError(Exception):
    """The service did not answer; the next look may be luckier."""


class _Client:
    """Short requests to one link-local address, never by a proxy."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url.rstrip("/")
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=1, retries=False)

    def ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        """Raises: _SilentError."""
        try:
            response = self._pool.request(
                method,
                self._base_url + path,
                headers=headers,
                timeout=_REQUEST_SECONDS,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _SilentError(type(error).__name__) from error
        return response.status, response.data.decode(errors="replace").strip()


class Service(Protocol):
    """One cloud's way of telling."""

    def is_here(self) -> bool:
        """Whether the machine is one of this cloud. Raises: _SilentError."""

    def look(self) -> Notice | None:
        """What it says. Raises: _SilentError."""


class Ec2:
    """IMDSv2: each answer needs a session token, which expires."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        self._token = ""

    def is_here(self) -> bool:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
        status, body = self._client.ask("PUT", "/latest/api/token", headers)
        self._token = body if status == 200 else ""
        return bool(self._token)

    def look(self) -> Notice | None:
        action = self._get("/latest/meta-data/spot/instance-action")
        if action is not None:
            return Notice("reclaim", "ec2 spot", _seconds_until(action))
        if self._get("/latest/meta-data/events/recommendations/rebalance") is not None:
            return Notice("reclaim", "ec2 rebalance", None)
        return None

    def _get(self, path: str) -> str | None:
        status, body = self._client.ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if status == 401:
            self.is_here()
        return body if status == 200 else None


class Gce:
    """Two values that stand at FALSE and NONE until something is to happen."""

    def __init__(self, client: _Client) -> None:
        self._client = client

    def is_here(self) -> bool:
        return self._get("preempted") is not None

    def look(self) -> Notice | None:
        if self._get("preempted") == "TRUE":
            return Notice("reclaim", "gce preempted", _GCE_RECLAIM_SECONDS)
        if self._get("maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE":
            return Notice("maintenance", "gce maintenance", None)
        return None

    def _get(self, name: str) -> str | None:
        path = f"/computeMetadata/v1/instance/{name}"
        status, body = self._client.ask("GET", path, {"Metadata-Flavor": "Google"})
        return body if status == 200 else None


class MetadataWatch:
    """Polls the service that answers at the start; elsewhere it ends at once.

    Each thing that is said is handed on once, in a thread of its own: a deadline runs while the
    first one is still being answered.
    """

    def __init__(
        self, base_url: str, on_notice: Callable[[Notice], None], stopping: threading.Event
    ) -> None:
        client = _Client(base_url)
        self._services: tuple[Service, ...] = (Ec2(client), Gce(client))
        self._on_notice = on_notice
        self._stopping = stopping
        self._told: set[str] = set()

    def start(self) -> None:
        threading.Thread(target=self._run, name="metadata", daemon=True).start()

    def _run(self) -> None:
        service = self._find()
        if service is None:
            return
        _LOG.info("metadata_found", extra={"service": type(service).__name__})
        while not self._stopping.is_set():
            self._look(service)
            self._stopping.wait(_POLL_SECONDS)

    def _find(self) -> Service | None:
        for service in self._services:
            try:
                if service.is_here():
                    return service
            except _SilentError:
                continue
        return None

    def _look(self, service: Service) -> None:
        try:
            notice = service.look()
        except _SilentError as error:
            _LOG.warning("metadata_silent", extra={"reason": str(error)})
            return
        if notice is None or notice.source in self._told:
            return
        self._told.add(notice.source)
        _LOG.warning("machine_will_go", extra=notice.to_json())
        threading.Thread(
            target=self._on_notice, args=(notice,), name="last-save", daemon=True
        ).start()


def _seconds_until(action: str) -> float | None:
    """Of `{"action": "terminate", "time": "2026-11-30T08:22:00Z"}`; `None` if it has no time."""
    try:
        moment = datetime.fromisoformat(json.loads(action)["time"]).astimezone(UTC)
    except (ValueError, KeyError, TypeError):
        _LOG.warning("spot_action_unclear", extra={"action": action[:200]})
        return None
    return max(0.0, moment.timestamp() - time.time())
