"""Moves objects to and from the store over presigned URLs: the engine's `ObjectStore`.

The URLs are all the right a machine has: each allows one object, for a short time. Nothing here
knows the machine's token, so it cannot reach the store's host.
"""

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, cast

import urllib3

from podferry_agent.api import ApiClient
from podferry_agent.batching import Batcher
from podferry_agent.errors import ObjectConflictError, StoppingError, TransferError
from podferry_agent.redaction import redact
from podferry_agent.retry import Backoff
from podferry_agent.snapshot import ObjectNotFoundError, Span, TimeLimit
from podferry_agent.wire import (
    OBJECTS_PER_REQUEST,
    DownloadGrant,
    StoredObject,
    UploadGrant,
)

_LOG = logging.getLogger(__name__)
# The embedded store holds whole bodies in memory, and four fill any uplink.
IN_FLIGHT = 4
_REFUSALS = 8
_CORRUPTIONS = 3
_ROOT = "root"
_PACKS = "packs/"
_SLICE = 64 * 1024
_READ_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class TransferScope:
    """The snapshots the URLs are asked for.

    A restore reads `snapshot_id`. A capture, which has an `attempt_id`, writes `snapshot_id` and
    reads what its parent needs.
    """

    snapshot_id: str
    attempt_id: str | None = None
    parent_id: str | None = None
    limit: TimeLimit = field(default_factory=TimeLimit)
    """Of a save: packs that are not there in time are left, so that the rest can be sent."""

    def read_through(self, key: tuple[str, str]) -> str:
        """The snapshot that gives the right to read this object."""
        is_own_root = key == (self.snapshot_id, _ROOT)
        if self.parent_id is None or is_own_root:
            return self.snapshot_id
        return self.parent_id


@dataclass(frozen=True, slots=True)
class _Slices:
    """A body in pieces, so that its sending can be broken off; raises `OutOfTimeError` then."""

    body: memoryview
    span: Span

    def __len__(self) -> int:
        return len(self.body)

    def __iter__(self) -> Iterator[memoryview]:
        for start in range(0, len(self.body), _SLICE):
            self.span.check_sending()
            yield self.body[start : start + _SLICE]


class PresignedStore:
    """One per command. Thread-safe; every call ends early when `cancelled` is set."""

    def __init__(
        self,
        api: ApiClient,
        pool: urllib3.PoolManager,
        scope: TransferScope,
        cancelled: threading.Event,
    ) -> None:
        self._api = api
        self._pool = pool
        self._scope = scope
        self._cancelled = cancelled
        # Pages and root are not to wait for packs that nobody waits for any more.
        self._pack_slots = threading.BoundedSemaphore(IN_FLIGHT)
        self._slots = threading.BoundedSemaphore(IN_FLIGHT)
        self._uploads = Batcher(self._ask_uploads, OBJECTS_PER_REQUEST)
        self._downloads = Batcher(self._ask_downloads, OBJECTS_PER_REQUEST)
        self._download_urls: dict[tuple[str, str], str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._uploads.close()
        self._downloads.close()

    def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
        """Blocks until the store has it; what is there already is fine.

        Raises:
            ObjectConflictError: The store has another `root` for this snapshot.
            TransferError: The store refuses it for good.
            StoppingError: Cancelled.
            OutOfTimeError: It is a pack, and the time for packs is over.
        """
        wanted = StoredObject(name, len(body), sha256)
        is_pack = name.startswith(_PACKS)
        span = self._scope.limit.begin() if is_pack else TimeLimit().begin()
        slots = self._pack_slots if is_pack else self._slots
        tries = _Tries(self._api.new_backoff(), self._cancelled, name)
        while True:
            tries.check()
            span.check_sending()
            grant = self._uploads.get(wanted)
            with slots:
                sent = _Slices(memoryview(body), span)
                status = self._send("PUT", grant.url, tries, grant.headers, sent)[0]
            if status in {200, 201, 204}:
                return
            if status == 412:
                self._accept_present(wanted)
                return
            tries.after(status)

    def get(self, snapshot_id: str, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Raises: ObjectNotFoundError, TransferError, StoppingError."""
        if length == 0:
            return b""
        key = (snapshot_id, name)
        headers = _range_headers(start, length)
        tries = _Tries(self._api.new_backoff(), self._cancelled, name)
        while True:
            tries.check()
            url = self._download_urls.get(key) or self._download_url(key)
            with self._slots:
                status, body = self._send("GET", url, tries, headers)
            if status in {200, 206}:
                part = body if status == 206 or not headers else body[start:][:length]
                if length is None or len(part) == length:
                    return part
                raise TransferError(f"{name} ends before byte {start + length}")
            if status == 404:
                raise ObjectNotFoundError(f"{snapshot_id}/{name} is not in the store")
            if status == 403:
                self._download_urls.pop(key, None)
            tries.after(status)

    def _send(
        self,
        method: str,
        url: str,
        tries: "_Tries",
        headers: Mapping[str, str],
        body: _Slices | None = None,
    ) -> tuple[int, bytes]:
        """Status and body; status 0 when there was no answer."""
        try:
            response = self._pool.request(
                method,
                url,
                body=cast("Iterator[bytes] | None", body),  # any buffer does
                headers=dict(headers),
                redirect=False,
                timeout=urllib3.Timeout(connect=10, read=self._patience(body)),
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            tries.note(redact(f"{type(error).__name__}: {error}"))
            return 0, b""
        return response.status, response.data

    def _patience(self, body: _Slices | None) -> float:
        """A PUT may wait long for its answer: the store hashes the whole body first."""
        span = self._scope.limit.begin()
        if not span.is_hurried:
            return _READ_SECONDS
        # A pack that is late is given up; without its pages and its root there is no save.
        is_pack = body is not None and body.span.is_hurried
        left = span.seconds_to_send() if is_pack else span.seconds_left()
        return min(_READ_SECONDS, max(1.0, left))

    def _accept_present(self, wanted: StoredObject) -> None:
        """412: content under a name that is its hash is ours; `root` has to be compared."""
        if wanted.name != _ROOT:
            return
        present = self.get(self._scope.snapshot_id, _ROOT)
        if hashlib.sha256(present).hexdigest() != wanted.sha256:
            raise ObjectConflictError(
                f"snapshot {self._scope.snapshot_id} already has another root; "
                "capture again under a new snapshot id",
            )

    def _download_url(self, key: tuple[str, str]) -> str:
        grant = self._downloads.get(key)
        self._download_urls[key] = grant.url
        return grant.url

    def _ask_uploads(self, objects: Sequence[StoredObject]) -> dict[StoredObject, UploadGrant]:
        body: dict[str, object] = {
            "snapshot_id": self._scope.snapshot_id,
            "attempt_id": self._scope.attempt_id,
            "objects": [item.to_json() for item in objects],
        }
        grants = UploadGrant.parse_all(self._api.post("/agent/v1/uploads", body, self._cancelled))
        return {item: grants[item.name] for item in objects if item.name in grants}

    def _ask_downloads(
        self, keys: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], DownloadGrant]:
        granted: dict[tuple[str, str], DownloadGrant] = {}
        for outer in {self._scope.read_through(key) for key in keys}:
            body: dict[str, object] = {
                "snapshot_id": outer,
                "objects": [
                    {"snapshot_id": snapshot, "name": name}
                    for snapshot, name in keys
                    if self._scope.read_through((snapshot, name)) == outer
                ],
            }
            answer = self._api.post("/agent/v1/downloads", body, self._cancelled)
            granted |= DownloadGrant.parse_all(answer)
        return granted


class _Tries:
    """Decides after each failed try whether there is another one, and when."""

    def __init__(self, backoff: Backoff, cancelled: threading.Event, name: str) -> None:
        self._backoff = backoff
        self._cancelled = cancelled
        self._name = name
        self._refused = 0
        self._corrupted = 0
        self._reason = ""

    def check(self) -> None:
        if self._cancelled.is_set():
            raise StoppingError(f"stopped while moving {self._name}")

    def note(self, reason: str) -> None:
        self._reason = reason

    def after(self, status: int) -> None:
        """Waits; raises TransferError when another try would not help."""
        if status == 403:
            self._after_refusal()
            return
        if status == 400:
            # BadDigest: damaged on the way. Damaged again and again means damaged here.
            self._corrupted += 1
            if self._corrupted >= _CORRUPTIONS:
                raise TransferError(f"{self._name}: the store refuses its content (400)")
        elif status and status < 500 and status not in {408, 409, 429}:
            raise TransferError(f"{self._name}: the store answered {status}")
        reason = self._reason if status == 0 else f"HTTP {status}"
        _LOG.warning("transfer_retried", extra={"object": self._name, "reason": reason})
        self._backoff.wait(self._cancelled)

    def _after_refusal(self) -> None:
        """An expired URL: ask for a fresh one, at once the first time."""
        self._refused += 1
        if self._refused >= _REFUSALS:
            reason = f"the store refused {_REFUSALS} fresh URLs (403)"
            raise TransferError(f"{self._name}: {reason}; is this machine's clock right?")
        if self._refused > 1:
            self._backoff.wait(self._cancelled)


def _range_headers(start: int, length: int | None) -> dict[str, str]:
    if start == 0 and length is None:
        return {}
    end = "" if length is None else str(start + length - 1)
    return {"range": f"bytes={start}-{end}"}


StoreFactory = Callable[[TransferScope, threading.Event], PresignedStore]
