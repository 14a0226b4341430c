"""A storm of writers while a volume is captured again and again: every file is whole, or says so."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from podferry_agent.snapshot.directorystore import DirectoryStore
from podferry_agent.snapshot.manifest import ManifestReader, load_root
from podferry_agent.snapshot.model import KEPT, TORN, Entry
from podferry_agent.snapshot.statestore import PageCache
from tests.agent.snapshot import writers
from tests.agent.snapshot.conftest import Bench

SECONDS = 8.0
_FILES = {
    "checkpoints": "model.ckpt",
    "log": "train.log",
    "bank_wal": "wal.db",
    "bank_rollback": "rollback.sqlite",
    "mapped": "array.bin",
    "churn": "churn",
}
_CHECKS: dict[str, Callable[[bytes], None]] = {
    "model.ckpt": writers.check_checkpoint,
    "train.log": writers.check_log,
    "array.bin": writers.check_mapped,
}


def entries_of(bench: Bench, snapshot_id: str) -> dict[bytes, Entry]:
    store = DirectoryStore(bench.store_directory)
    root = load_root(store, snapshot_id)
    reader = ManifestReader(store, root, PageCache(bench.base / "pages"))
    return {entry.path: entry for entry in reader.entries()}


def test_promise_08_in_a_storm_of_writers_every_file_is_whole_or_its_previous_content(
    bench: Bench,
) -> None:
    volume = bench.make("pod")
    with ExitStack() as stack:
        for kind, name in _FILES.items():
            stack.enter_context(writers.writing(kind, volume / name))
        snapshots = list(_captures(bench, time.monotonic() + SECONDS))
    contents: dict[str, dict[bytes, bytes]] = {}
    for snapshot_id in snapshots:
        contents[snapshot_id] = _restored(bench, snapshot_id)
        for path, entry in entries_of(bench, snapshot_id).items():
            if entry.bits & KEPT:
                assert contents[snapshot_id][path] == contents[entry.kept][path]
            elif entry.is_regular and not entry.bits & TORN:
                _check(bench.tree("new"), path, contents[snapshot_id][path])


def _captures(bench: Bench, deadline: float) -> Iterator[str]:
    parent = None
    for number in range(100):
        if number >= 3 and time.monotonic() > deadline:
            return
        snapshot_id = f"snap_{number}"
        outcome = bench.capture("pod", snapshot_id, parent, live=True, cpu_share=1.0)
        assert not any(".db" in text or ".sqlite" in text for text in outcome.summary.torn)
        yield snapshot_id
        parent = snapshot_id


def _restored(bench: Bench, snapshot_id: str) -> dict[bytes, bytes]:
    tree = bench.make("new")
    bench.restore("new", snapshot_id)
    return {
        os.fsencode(path.relative_to(tree)): path.read_bytes()
        for path in tree.rglob("*")
        if path.is_file()
    }


def _check(tree: Path, path: bytes, content: bytes) -> None:
    name = os.fsdecode(path)
    if name in ("wal.db", "rollback.sqlite"):
        assert not [*tree.glob(f"{name}-*")]
        writers.check_bank(tree / name)
    elif name.startswith("churn/"):
        writers.check_churn(content)
    elif name in _CHECKS:
        _CHECKS[name](content)
