"""Snapshots for tests that look into them: captured by the engine, or made of entries alone."""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from podferry.domain.pod import Pod
from podferry.domain.snapshot import (
    Snapshot,
    SnapshotKind,
    SnapshotState,
    StoredObject,
    object_key,
)
from podferry.domain.volume import Volume
from podferry.ports.store import Create
from podferry_agent.snapshot.chunks import Block, ChunkTable, Pack
from podferry_agent.snapshot.model import Entry, display
from podferry_agent.snapshot.pages import encode_page
from tests.agent.snapshot.conftest import Bench
from tests.unit.http.deployment import User
from tests.unit.http.running import a_stopped_pod

KIND = SnapshotKind.VOLUME


class Shelf:
    """One pod of a user, with a tree on disk that can be captured again and again."""

    def __init__(self, user: User, directory: Path) -> None:
        self.user = user
        self.ports = user.deployment.ports
        self.pod: Pod = self.ports.store.get(Pod, a_stopped_pod(user))
        self._bench = Bench(directory)
        self._last: str | None = None
        self._serials = count(1)

    @property
    def tree(self) -> Path:
        """The volume's directory."""
        return self._bench.make("pod")

    @property
    def look(self) -> Any:
        return self.user.deployment.use.look

    def capture(self) -> str:
        """What is on disk as a committed save."""
        snapshot_id = self.user.deployment.use.records.new_id(Snapshot)
        key = base64.b64decode(self.user.account.chunk_key)
        self._bench.capture("pod", snapshot_id, self._last, chunk_key=key)
        below = self._bench.store_directory / snapshot_id
        for path in below.rglob("*"):
            if path.is_file():
                self.put(snapshot_id, str(path.relative_to(below)), path.read_bytes())
        root = (below / "root").read_bytes()
        self._commit(snapshot_id, root, self._last)
        self._last = snapshot_id
        return snapshot_id

    def made_of(self, entries: Sequence[Entry], *, page_bits: int = 2, salt: str = "") -> str:
        """A save with these names; its pages are cut like the engine's, only shorter.

        With another salt the same names are in pages with other bytes.
        """
        snapshot_id = self.user.deployment.use.records.new_id(Snapshot)
        pages = []
        for group in _cut(entries, (1 << page_bits) - 1):
            body = encode_page(group, chunks_of(salt))
            digest = hashlib.sha256(body).hexdigest()
            self.put(snapshot_id, f"pages/{digest}", body)
            pages.append({"sha256": digest, "size": len(body), "first": display(group[0].path)})
        root = {
            "format": 1,
            "kind": KIND,
            "snapshot_id": snapshot_id,
            "parent": None,
            "pages": pages,
            "packs": [],
            "counts": {"entries": len(entries), "files": 0, "bytes": 0},
        }
        self._commit(snapshot_id, json.dumps(root).encode(), None)
        return snapshot_id

    def put(self, snapshot_id: str, name: str, body: bytes) -> None:
        self.ports.objects.put(KIND, object_key(self.user.account.id, snapshot_id, name), body)

    def damage(self, folder: str, at: int) -> None:
        """Flip a bit of this byte in every object of this kind."""
        for key in self.ports.objects.keys(KIND):
            if f"/{folder}/" in key:
                body = bytearray(self.ports.objects.read(KIND, key))
                body[at] ^= 1
                self.ports.objects.put(KIND, key, bytes(body))

    def _commit(self, snapshot_id: str, root: bytes, parent_id: str | None) -> None:
        self.put(snapshot_id, "root", root)
        digest = hashlib.sha256(root).hexdigest()
        now = self.ports.clock.now()
        self.ports.store.commit(
            Create(
                Snapshot(
                    id=snapshot_id,
                    account_id=self.user.account.id,
                    created_at=now,
                    kind=KIND,
                    subject_id=self.ports.store.get(Volume, self.pod.volume_id).id,
                    pod_id=self.pod.id,
                    machine_id="mach_none",
                    epoch=1,
                    operation_id=None,
                    parent_id=parent_id,
                    state=SnapshotState.COMMITTED,
                    root=StoredObject(name="root", size=len(root), sha256=digest),
                    committed_at=now,
                )
            )
        )


CONTENTS = 8
"""Different chunks that made-up files may have, by number."""


def chunks_of(salt: str) -> ChunkTable:
    """Where those chunks are said to lie; the salt is in the name of the pack."""
    table = ChunkTable()
    pack = Pack("snap_none", hashlib.sha256(salt.encode()).hexdigest(), 1)
    block = table.add_block(Block(pack, 0, 1, 1, 0, 0))
    for number in range(CONTENTS):
        table.add(bytes([number]) * 32, 1, block, number)
    return table


def _cut(entries: Sequence[Entry], mask: int) -> Iterator[list[Entry]]:
    page: list[Entry] = []
    for entry in entries:
        page.append(entry)
        if not zlib.crc32(entry.path) & mask:
            yield page
            page = []
    if page:
        yield page
