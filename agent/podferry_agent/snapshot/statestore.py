"""What the engine keeps on the machine between runs: pages, facts about files, confirmed packs.

Everything here can be lost without harm: then more is read again, and nothing wrong is stored.
Everything read is checked by hash or checksum first.
"""

import hashlib
import os
import shutil
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from podferry_agent.snapshot.listings import Listing, Listings
from podferry_agent.snapshot.sections import (
    pack_column,
    pack_strings,
    read_sections,
    unpack_column,
    unpack_strings,
    write_sections,
)

RACY_NS = 2_000_000_000  # a ctime this close to the scan proves nothing
_MAGIC = b"PFSTAT03"


def write_atomically(path: Path, body: bytes | memoryview, *, durable: bool = True) -> None:
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
class Facts:
    """What is known on this machine of a snapshot: which inodes its entries were read from."""

    rules: bytes  # fingerprint of the rules; with others the listings say nothing
    pages: list[str]
    firsts: list[bytes]  # path of the first entry of each page
    listings: Listings
    copies: Sequence[bytes] = ()  # databases of which the snapshot has a copy made by SQLite

    def encode(self, proven_before_ns: int) -> bytes:
        listings = self.listings.all()
        links = [(inode, path) for inode, paths in self.listings.links.items() for path in paths]
        body = write_sections(
            [
                (b"RULE", self.rules),
                (b"PAGE", pack_strings([name.encode() for name in self.pages])),
                (b"FRST", pack_strings(self.firsts)),
                (b"DIRS", pack_strings([listing.path for listing in listings])),
                (b"NAMS", pack_strings([listing.names for listing in listings])),
                (b"ROWS", pack_strings([x.settled_rows(proven_before_ns) for x in listings])),
                (b"OPEN", pack_strings([listing.opened for listing in listings])),
                (b"LNKD", pack_column("Q", [inode[0] for inode, _ in links])),
                (b"LNKI", pack_column("Q", [inode[1] for inode, _ in links])),
                (b"LNKP", pack_strings([path for _, path in links])),
                (b"CPYS", pack_strings(self.copies)),
            ]
        )
        return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body

    @staticmethod
    def decode(data: bytes) -> "Facts | None":
        """None if it was not written whole by this version."""
        body = data[12:]
        if data[:8] != _MAGIC or struct.pack("<I", zlib.crc32(body)) != data[8:12]:
            return None
        sections = read_sections(body)
        columns = (unpack_strings(sections[tag]) for tag in (b"DIRS", b"NAMS", b"ROWS", b"OPEN"))
        links: dict[tuple[int, int], list[bytes]] = {}
        inodes = zip(
            unpack_column("Q", sections[b"LNKD"]),
            unpack_column("Q", sections[b"LNKI"]),
            strict=True,
        )
        for inode, path in zip(inodes, unpack_strings(sections[b"LNKP"]), strict=True):
            links.setdefault(inode, []).append(path)
        return Facts(
            sections[b"RULE"],
            [name.decode() for name in unpack_strings(sections[b"PAGE"])],
            unpack_strings(sections[b"FRST"]),
            Listings((Listing(*row) for row in zip(*columns, strict=True)), links),
            unpack_strings(sections[b"CPYS"]),
        )


class StateStore:
    """The engine's directory of one tree kind, below the agent's state directory."""

    def __init__(self, state_dir: bytes, kind: str) -> None:
        self.directory = Path(os.fsdecode(state_dir)) / "snapshots" / kind
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.pages = PageCache(self.directory / "pages")

    def facts(self, snapshot_id: str) -> Facts | None:
        try:
            return Facts.decode(self._facts_path(snapshot_id).read_bytes())
        except FileNotFoundError:
            return None

    def remember(self, snapshot_id: str, parent: str | None, facts: bytes) -> None:
        """Keep the facts of a snapshot, and of its parent in case this one is given up."""
        # Not durable: after a power cut a broken file is not believed, and all is hashed.
        write_atomically(self._facts_path(snapshot_id), facts, durable=False)
        for path in (self.directory / "facts").glob("*"):
            if path.name not in (snapshot_id, parent):
                path.unlink(missing_ok=True)

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
