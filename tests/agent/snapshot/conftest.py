"""Fixtures of the engine's tests: a workbench with a store, trees and the engine's calls."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bundle.native import build_native
from podferry_agent.snapshot import (
    CaptureOutcome,
    CaptureSpec,
    Difference,
    Progress,
    RestoreHooks,
    RestoreOutcome,
    RestoreSpec,
    capture,
    native,
    restore,
    verify_tree,
)
from podferry_agent.snapshot.directorystore import DirectoryStore
from tests.agent.snapshot import trees


def ignore(_: Progress) -> None:
    """A caller that does not look at the progress."""


class CountingStore(DirectoryStore):
    """Knows what was put into it in this capture."""

    def __init__(self, directory: Path, snapshot_id: str) -> None:
        super().__init__(directory, snapshot_id)
        self.names: list[str] = []

    def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
        super().put(name, body, sha256)
        self.names.append(name)

    def packs(self) -> list[str]:
        return [n for n in self.names if n.startswith("packs/")]

    def pages(self) -> list[str]:
        return [n for n in self.names if n.startswith("pages/")]


@dataclass
class Bench:
    """A machine in a directory: `tree(name)` is the root of one tree on it."""

    base: Path
    kind: str = "volume"
    last_store: CountingStore | None = None
    counter: int = field(default=0)

    @property
    def store_directory(self) -> Path:
        return self.base / "store"

    def root(self, machine: str) -> Path:
        return self.base / machine

    def tree(self, machine: str) -> Path:
        path = self.root(machine)
        return path / "workspace" if self.kind == "volume" else path

    def make(self, machine: str) -> Path:
        path = self.tree(machine)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def fields(self, machine: str, snapshot_id: str, **more: Any) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "snapshot_id": snapshot_id,
            "chunk_key": trees.KEY,
            "root": os.fsencode(self.root(machine)),
            "state_dir": os.fsencode(self.base / f"state-{machine}"),
            **more,
        }

    def capture(
        self, machine: str, snapshot_id: str, parent: str | None = None, **more: Any
    ) -> CaptureOutcome:
        store = more.pop("store", None) or CountingStore(self.store_directory, snapshot_id)
        self.last_store = store
        report = more.pop("progress", ignore)
        cancelled = more.pop("cancelled", threading.Event())
        limit = more.pop("limit", None)
        spec = CaptureSpec(parent=parent, **self.fields(machine, snapshot_id, **more))
        return capture(spec, store, report, cancelled, limit)

    def restore(self, machine: str, snapshot_id: str, **more: Any) -> RestoreOutcome:
        store = more.pop("store", None) or DirectoryStore(self.store_directory)
        report = more.pop("progress", ignore)
        cancelled = more.pop("cancelled", threading.Event())
        hooks = more.pop("hooks", RestoreHooks())
        spec = RestoreSpec(**self.fields(machine, snapshot_id, **more))
        return restore(spec, store, report, cancelled, hooks)

    def verify(self, machine: str, snapshot_id: str, **more: Any) -> list[Difference]:
        spec = RestoreSpec(**self.fields(machine, snapshot_id, **more))
        return verify_tree(spec, DirectoryStore(self.store_directory))

    def differences(self, left: str, right: str) -> list[str]:
        """By an independent reading of both trees."""
        return trees.differing(
            trees.snapshot_of_disk(self.tree(left)), trees.snapshot_of_disk(self.tree(right))
        )


@pytest.fixture(scope="session", autouse=True)
def _with_helper() -> None:
    """These tests are about the engine as the bundle has it: with its compiled helper."""
    build_native()
    assert native.helper() is not None


def on_preadv(monkeypatch: pytest.MonkeyPatch, preadv: Callable[..., int]) -> None:
    """Put a function in the place of `os.preadv`, by which all files are read then."""
    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr("podferry_agent.snapshot.plain.helper", lambda: None)


def on_scandir(monkeypatch: pytest.MonkeyPatch, scandir: Callable[..., object]) -> None:
    """Put a function in the place of `os.scandir`, by which all directories are listed then."""
    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr("podferry_agent.snapshot.scanning.helper", lambda: None)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """A directory that is removed at the end even with immutable files in it."""
    directory = tmp_path / "bench"
    directory.mkdir()
    yield directory
    trees.remove(directory)


@pytest.fixture
def bench(base: Path) -> Bench:
    return Bench(base)


@pytest.fixture
def environment(base: Path) -> Bench:
    """The same, for trees of kind environment."""
    return Bench(base, kind="environment")


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believes a file's ctime at once, so that a test need not wait two seconds."""
    monkeypatch.setattr("podferry_agent.snapshot.statestore.RACY_NS", 0)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets pauses take longer: on a busy computer a process does not come to rest at once."""
    monkeypatch.setattr("podferry_agent.snapshot.pausing._STOPPING", 5.0)
    monkeypatch.setattr("podferry_agent.snapshot.pausing.LONGEST", 10.0)
    monkeypatch.setattr("podferry_agent.snapshot.pausing.BUDGET", 60.0)


@pytest.fixture
def roomy(bench: Bench, tmp_path: Path) -> Iterator[Bench]:
    """A bench on a filesystem that takes attributes of 60 KiB, which ext4 mostly does not."""
    for above in (bench.base, Path("/dev/shm")):
        base = above / f"podferry-{tmp_path.parent.name}-{tmp_path.name}"
        base.mkdir()
        try:
            os.setxattr(base, "user.probe", bytes(60_000))
        except OSError:
            base.rmdir()
            continue
        try:
            yield Bench(base)
        finally:
            trees.remove(base)
        return
    pytest.skip("no filesystem here takes large attributes")
