"""Snapshot objects and the agent bundle in memory, with signed URLs that tests can use."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from podferry.adapters.memory.surroundings import ManualClock
from podferry.domain.errors import SnapshotCorruptError, SnapshotMissingError
from podferry.domain.snapshot import SnapshotKind
from podferry.ports.objects import ListedObject, ObjectFacts, SignedUpload
from podferry.ports.surroundings import Clock

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class _Right:
    """What a signed URL allows."""

    kind: SnapshotKind
    key: str
    headers: dict[str, str] | None
    """The headers of an upload; `None` for a download."""


class MemoryObjects:
    """A `SnapshotObjects`; `receive` and `serve` are the far end of its signed URLs."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or ManualClock()
        self._bodies: dict[tuple[SnapshotKind, str], bytes] = {}
        self._stored_at: dict[tuple[SnapshotKind, str], datetime] = {}
        self._rights: dict[str, _Right] = {}
        self._serials = count(1)

    def sign_upload(self, kind: SnapshotKind, key: str, size: int, sha256: str) -> SignedUpload:
        headers = {"content-length": str(size), "x-sha256": sha256, "if-none-match": "*"}
        return SignedUpload(self._sign(_Right(kind, key, headers)), dict(headers))

    def sign_download(self, kind: SnapshotKind, key: str) -> str:
        return self._sign(_Right(kind, key, None))

    def _sign(self, right: _Right) -> str:
        url = f"memory://{right.kind}/{right.key}?right={next(self._serials)}"
        self._rights[url] = right
        return url

    def facts(self, kind: SnapshotKind, key: str) -> ObjectFacts | None:
        body = self._bodies.get((kind, key))
        if body is None:
            return None
        return ObjectFacts(size=len(body), sha256=hashlib.sha256(body).hexdigest())

    def read(self, kind: SnapshotKind, key: str) -> bytes:
        try:
            return self._bodies[kind, key]
        except KeyError as error:
            raise SnapshotMissingError(f"{key} is not in the {kind} store") from error

    def put_once(self, kind: SnapshotKind, key: str, body: bytes, sha256: str) -> None:
        if hashlib.sha256(body).hexdigest() != sha256:
            raise SnapshotCorruptError(f"{key}: the bytes are not {sha256}")
        if self._bodies.get((kind, key), body) != body:
            raise SnapshotCorruptError(f"{key}: another object has this name already")
        if (kind, key) not in self._bodies:
            self.put(kind, key, body)

    def read_range(self, kind: SnapshotKind, key: str, start: int, length: int) -> bytes:
        body = self.read(kind, key)
        if start >= len(body):
            raise SnapshotCorruptError(f"{key} ends before byte {start}")
        return body[start : start + length]

    def hashed(self, kind: SnapshotKind, key: str) -> ObjectFacts:
        body = self.read(kind, key)
        return ObjectFacts(size=len(body), sha256=hashlib.sha256(body).hexdigest())

    def listed(
        self, kind: SnapshotKind, prefix: str, after: str | None, limit: int
    ) -> Sequence[ListedObject]:
        found = [
            ListedObject(key, len(body), self._stored_at[held, key])
            for (held, key), body in sorted(self._bodies.items())
            if held == kind and key.startswith(prefix) and key > (after or "")
        ]
        return found[:limit]

    def delete(self, kind: SnapshotKind, keys: Sequence[str]) -> None:
        for key in keys:
            self._bodies.pop((kind, key), None)

    def receive(self, url: str, headers: dict[str, str], body: bytes) -> int:
        """Answer a PUT with the status that S3 gives."""
        right = self._rights.get(url)
        if right is None or right.headers is None or headers != right.headers:
            return 403
        if len(body) != int(headers["content-length"]):
            return 400
        if hashlib.sha256(body).hexdigest() != headers["x-sha256"]:
            return 400
        if (right.kind, right.key) in self._bodies:
            return 412
        self.put(right.kind, right.key, body)
        return 200

    def serve(self, url: str, byte_range: str | None = None) -> tuple[int, bytes]:
        """Answer a GET, with a Range header of the form `bytes=<first>-<last>` or none."""
        right = self._rights.get(url)
        if right is None or right.headers is not None:
            return 403, b""
        body = self._bodies.get((right.kind, right.key))
        if body is None:
            return 404, b""
        if byte_range is None:
            return 200, body
        match = _RANGE.fullmatch(byte_range)
        if match is None:
            return 416, b""
        return 206, body[int(match[1]) : int(match[2]) + 1]

    def put(self, kind: SnapshotKind, key: str, body: bytes) -> None:
        """Put an object there past every rule, for tests of damage."""
        self._bodies[kind, key] = body
        self._stored_at[kind, key] = self._clock.now()

    def remove(self, kind: SnapshotKind, key: str) -> None:
        """Take an object away, for tests of loss."""
        del self._bodies[kind, key]

    def keys(self, kind: SnapshotKind) -> list[str]:
        """What is there, sorted."""
        return sorted(key for held, key in self._bodies if held == kind)


class MemoryBundle:
    """An `AgentBundle` that no machine can fetch."""

    def __init__(self, body: bytes = b"bundle") -> None:
        self._sha256 = hashlib.sha256(body).hexdigest()

    def url(self) -> str:
        return f"memory://agent/{self._sha256}.tar.gz"

    def sha256(self) -> str:
        return self._sha256
