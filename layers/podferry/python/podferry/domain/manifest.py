"""The root of a snapshot, as far as the control plane reads it (see docs/snapshot-format.md)."""

import json
import re
from dataclasses import dataclass
from typing import Any

from podferry.domain.errors import SnapshotCorruptError

FORMAT = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, order=True)
class NeededObject:
    """A pack or page that the snapshot needs, in the snapshot that stored it."""

    snapshot_id: str
    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RootManifest:
    """What must be in the store for the snapshot to be restorable."""

    kind: str
    snapshot_id: str
    parent_id: str | None
    needed: tuple[NeededObject, ...]
    """Every page and every pack, also those of older snapshots, sorted."""
    entries: int
    files: int
    bytes: int

    @property
    def own_bytes(self) -> int:
        """Of what it needs, the part that it stored itself; without the root."""
        return sum(one.size for one in self.needed if one.snapshot_id == self.snapshot_id)

    @property
    def content(self) -> frozenset[str]:
        """Equal in two roots that hold the same tree, stored in the same places.

        A page names all that is in it by hash, so whoever stored an object does not matter.
        """
        return frozenset(one.name for one in self.needed)


def parse_root(body: bytes) -> RootManifest:
    """Read a root object.

    Raises:
        SnapshotCorruptError: it is not a root of a format that we know; says where it is wrong.
    """
    try:
        raw = _loaded(body)
        needed = [_needed(page, "pages", raw) for page in raw["pages"]]
        needed += [_needed(pack, "packs", raw) for pack in raw["packs"]]
        counts = raw["counts"]
        return RootManifest(
            kind=str(raw["kind"]),
            snapshot_id=str(raw["snapshot_id"]),
            parent_id=None if raw["parent"] is None else str(raw["parent"]),
            needed=tuple(sorted(set(needed))),
            entries=int(counts["entries"]),
            files=int(counts["files"]),
            bytes=int(counts["bytes"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _no_root(error) from error


@dataclass(frozen=True, slots=True)
class PageRef:
    """A page of names, in the snapshot that stored it."""

    snapshot_id: str
    name: str
    sha256: str
    first: str
    """Path of its first entry, as agents write paths for people."""


def parse_pages(body: bytes) -> tuple[PageRef, ...]:
    """The pages that a root lists, in their order.

    Raises:
        SnapshotCorruptError: it is not a root of a format that we know.
    """
    try:
        raw = _loaded(body)
        return tuple(
            PageRef(
                snapshot_id=str(page.get("snapshot_id", raw["snapshot_id"])),
                name=f"pages/{page['sha256']}",
                sha256=str(page["sha256"]),
                first=str(page["first"]),
            )
            for page in raw["pages"]
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_root(error) from error


def _loaded(body: bytes) -> Any:
    raw = json.loads(body)
    if raw["format"] != FORMAT:
        raise SnapshotCorruptError(f"root: format {raw['format']!r} is not {FORMAT}")
    return raw


def _no_root(error: Exception) -> SnapshotCorruptError:
    return SnapshotCorruptError(f"root: not a snapshot root ({type(error).__name__}: {error})")


def _needed(raw: dict[str, Any], folder: str, root: dict[str, Any]) -> NeededObject:
    digest = str(raw["sha256"])
    if _DIGEST.fullmatch(digest) is None:
        raise SnapshotCorruptError(f"root: {folder} names {digest!r}, which is no SHA-256")
    return NeededObject(
        snapshot_id=str(raw.get("snapshot_id", root["snapshot_id"])),
        name=f"{folder}/{digest}",
        size=int(raw["size"]),
        sha256=digest,
    )
