"""The object store behind presigned URLs: takes and gives only what was signed for."""

import base64
import hashlib
import itertools
import threading
from dataclasses import dataclass


@dataclass
class Grant:
    """What one signature allows."""

    method: str
    key: tuple[str, str]
    sha256: str = ""
    size: int = 0


class FakeObjects:
    """Keyed by snapshot and name, never written twice; checks what S3 checks."""

    def __init__(self, url: str, changed: threading.Condition) -> None:
        self.bodies: dict[tuple[str, str], bytes] = {}
        self.most_puts_in_flight = 0
        self._url = url
        self._changed = changed
        self._grants: dict[str, Grant] = {}
        self._puts_in_flight = 0
        self._numbers = itertools.count(1)

    def presign(self, grant: Grant) -> str:
        signature = hashlib.sha256(f"signature {next(self._numbers)}".encode()).hexdigest()
        self._grants[signature] = grant
        snapshot_id, name = grant.key
        query = f"X-Amz-Expires=900&X-Amz-Signature={signature}"
        return f"{self._url}/objects/{snapshot_id}/{name}?{query}"

    def put(self, signature: str, headers: dict[str, str], body: bytes) -> int:
        """The HTTP status."""
        with self._changed:
            grant = self._grants.get(signature)
            if grant is None or grant.method != "PUT" or headers.get("if-none-match") != "*":
                return 403
            digest = hashlib.sha256(body).digest()
            if headers.get("x-amz-checksum-sha256") != checksum(digest):
                return 400
            if digest.hex() != grant.sha256 or len(body) != grant.size:
                return 403
            if grant.key in self.bodies:
                return 412
            self.bodies[grant.key] = body
            self._changed.notify_all()
            return 200

    def get(self, signature: str) -> bytes | int:
        """The object, or an HTTP status."""
        with self._changed:
            grant = self._grants.get(signature)
            if grant is None or grant.method != "GET":
                return 403
            return self.bodies.get(grant.key, 404)

    def note_puts(self, change: int) -> None:
        with self._changed:
            self._puts_in_flight += change
            self.most_puts_in_flight = max(self.most_puts_in_flight, self._puts_in_flight)


def checksum(digest: bytes) -> str:
    """A hash as S3's header has it."""
    return base64.b64encode(digest).decode()
