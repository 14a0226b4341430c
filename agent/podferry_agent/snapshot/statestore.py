"""What the engine keeps on the machine between runs: pages, facts about files, confirmed packs.

Everything here can be lost without harm: then more is read again, and nothing wrong is stored.
Everything read is checked by hash or checksum first.
"""

import hashlib
import os
import shutil
import struct
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from podferry_agent.snapshot.sections import (
    pack_column,
    pack_strings,
    read_sections,
    unpack_column,
    unpack_strings,
    write_sections,
)

RACY_NS = 2_000_000_000
_MAGIC = b"PFSTAT01"


def proven_ctime(ctime_ns: int, scan_start_ns: int) -> int:
    """The ctime, or 0 if it is so close to the scan that a later write may have the same one."""
    return ctime_ns if ctime_ns < scan_start_ns - RACY_NS else 0


def write_atomically(path: Path, body: bytes, *, durable: bool = True) -> None:
    """Write a file that is either whole or absent after a kill; if durable, also a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(body)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)


class PageCache:
    """Copies of pages, by SHA-256; saves downloading the parent's manifest for each capture."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, sha256: str) -> bytes | None:
        try:
            body = (self._directory / sha256).read_bytes()
        except FileNotFoundError:
            return None
        return body if hashlib.sha256(body).hexdigest() == sha256 else None

    def put(self, sha256: str, body: bytes) -> None:
        write_atomically(self._directory / sha256, body, durable=False)

    def keep_only(self, wanted: Iterable[str]) -> None:
        """Drop copies that no kept snapshot has."""
        kept = set(wanted)
        for path in self._directory.glob("*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)


@dataclass
class StatFacts:
    """For each entry of a snapshot's manifest, in order: the inode it was read from.

    An entry whose facts are all equal is unchanged. `ctimes` is 0 where they prove nothing.
    """

    pages: list[str]
    devs: Sequence[int]
    inos: Sequence[int]
    ctimes: Sequence[int]

    def encode(self) -> bytes:
        body = write_sections(
            [
                (b"PAGE", pack_strings([name.encode() for name in self.pages])),
                (b"DEVS", pack_column("Q", self.devs)),
                (b"INOS", pack_column("Q", self.inos)),
                (b"CTIM", pack_column("q", self.ctimes)),
            ]
        )
        return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body

    @staticmethod
    def decode(data: bytes) -> "StatFacts | None":
        """None if it was not written whole by this version."""
        body = data[12:]
        if data[:8] != _MAGIC or struct.pack("<I", zlib.crc32(body)) != data[8:12]:
            return None
        sections = read_sections(body)
        pages = [name.decode() for name in unpack_strings(sections[b"PAGE"])]
        columns: list[array[int]] = [
            unpack_column("Q", sections[b"DEVS"]),
            unpack_column("Q", sections[b"INOS"]),
            unpack_column("q", sections[b"CTIM"]),
        ]
        return StatFacts(pages, *columns)


class StateStore:
    """The engine's directory of one tree kind, below the agent's state directory."""

    def __init__(self, state_dir: bytes, kind: str) -> None:
        self.directory = Path(os.fsdecode(state_dir)) / "snapshots" / kind
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.pages = PageCache(self.directory / "pages")

    def facts(self, snapshot_id: str) -> StatFacts | None:
        try:
            return StatFacts.decode(self._facts_path(snapshot_id).read_bytes())
        except FileNotFoundError:
            return None

    def remember(self, snapshot_id: str, facts: StatFacts, parent: str | None) -> None:
        """Keep the facts of a snapshot, and of its parent in case this one is given up."""
        write_atomically(self._facts_path(snapshot_id), facts.encode())
        kept = {snapshot_id, parent}
        wanted = list(facts.pages)
        for path in (self.directory / "facts").glob("*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)
            elif path.name == parent and (old := self.facts(path.name)):
                wanted += old.pages
        self.pages.keep_only(wanted)

    def confirmed_packs(self, snapshot_id: str) -> list[tuple[str, int, bytes]]:
        """(sha256, size, footer) of packs an earlier run stored for this very snapshot."""
        found = []
        for path in sorted((self.directory / "packs" / snapshot_id).glob("*-*")):
            sha256, _, size = path.name.partition("-")
            if size.isdigit():
                found.append((sha256, int(size), path.read_bytes()))
        return found

    def confirm_pack(self, snapshot_id: str, sha256: str, size: int, footer: bytes) -> None:
        path = self.directory / "packs" / snapshot_id / f"{sha256}-{size}"
        write_atomically(path, footer, durable=False)

    def forget_packs(self, *, other_than: str | None = None) -> None:
        """Packs of a snapshot that was given up may never be referred to: their notes go too."""
        for path in (self.directory / "packs").glob("*"):
            if path.name != other_than:
                shutil.rmtree(path)

    def note(self, name: str, text: str) -> None:
        write_atomically(self.directory / name, text.encode())

    def _facts_path(self, snapshot_id: str) -> Path:
        return self.directory / "facts" / snapshot_id
