"""Where snapshots are kept: one bucket for environments, one for volumes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from podferry.domain.snapshot import SnapshotKind


@dataclass(frozen=True, slots=True)
class SignedUpload:
    """A short-lived right to write one object once: PUT `url` with exactly these headers."""

    url: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What the store itself says of an object. `sha256` is hex, `None` if it keeps none."""

    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object as a listing shows it."""

    key: str
    size: int
    stored_at: datetime


class SnapshotObjects(Protocol):
    """Objects are written once, by agents, through signed URLs; we read, sign and at last delete.

    Copies for those with whom an environment is shared we write ourselves.

    All methods may be called any number of times; none waits for an agent.
    """

    def sign_upload(self, kind: SnapshotKind, key: str, size: int, sha256: str) -> SignedUpload:
        """A URL that stores exactly these bytes under `key`, unless the key exists (412)."""

    def sign_download(self, kind: SnapshotKind, key: str) -> str:
        """A URL that reads the object, whole or by range."""

    def facts(self, kind: SnapshotKind, key: str) -> ObjectFacts | None:
        """Size and checksum as the store has them; `None` if there is no such object."""

    def read(self, kind: SnapshotKind, key: str) -> bytes:
        """The whole object, which is at most 64 MiB.

        Raises:
            SnapshotMissingError: no such object.
        """

    def put_once(self, kind: SnapshotKind, key: str, body: bytes, sha256: str) -> None:
        """Store the object; if one of that name is there it stays, and has to be the same.

        Raises:
            SnapshotCorruptError: another object has this name, or the bytes have another hash.
        """

    def read_range(self, kind: SnapshotKind, key: str, start: int, length: int) -> bytes:
        """`length` bytes (1 at least) from `start` on; fewer if the object ends before.

        Raises:
            SnapshotMissingError: no such object.
            SnapshotCorruptError: the object ends before `start`.
        """

    def hashed(self, kind: SnapshotKind, key: str) -> ObjectFacts:
        """Size and SHA-256 of the bytes themselves, which are all read; none are kept in memory.

        Raises:
            SnapshotMissingError: no such object.
        """

    def listed(
        self, kind: SnapshotKind, prefix: str, after: str | None, limit: int
    ) -> Sequence[ListedObject]:
        """Up to `limit` (1,000 at most) objects below `prefix`, in the order of their keys.

        It begins behind the key `after`. Fewer than `limit` are the last ones.
        """

    def delete(self, kind: SnapshotKind, keys: Sequence[str]) -> None:
        """None of these (1,000 at most) can be read or listed any more; absent ones are no error.

        Only the garbage collector has the right to it.
        """


class AgentBundle(Protocol):
    """The program that a machine fetches at boot."""

    def url(self) -> str:
        """A URL that any machine can fetch the bundle from within the hour, without TLS tools."""

    def sha256(self) -> str:
        """Hex digest of the bundle, pinned at deployment."""
