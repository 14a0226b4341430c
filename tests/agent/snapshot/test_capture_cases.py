"""Files that change, vanish or cannot be read; mounts; rules; progress; cancelling."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from podferry_agent.snapshot import (
    CancelledByCallerError,
    CaptureFailedError,
    InvalidRuleError,
    InvalidSpecError,
    Progress,
)
from podferry_agent.snapshot.manifest import load_root
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench, CountingStore, on_preadv
from tests.agent.snapshot.namespaces import run_apart

needs_root = pytest.mark.skipif(not trees.IS_ROOT, reason="needs root")


def on_read(
    monkeypatch: pytest.MonkeyPatch, path: Path, action: Callable[[], None], times: int
) -> None:
    """Call `action` after each of the first reads of a file, as a program that writes to it."""
    status = path.stat()
    original = os.preadv
    left = [times]

    def preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        got = original(fd, buffers, offset)
        found = os.fstat(fd)
        if left[0] and (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino):
            left[0] -= 1
            action()
        return got

    on_preadv(monkeypatch, preadv)


def grow(path: Path) -> Callable[[], None]:
    def action() -> None:
        with path.open("ab") as file:
            file.write(b"more")

    return action


@pytest.mark.parametrize("size", [1000, 3 << 20, 20 << 20], ids=["small", "chunk", "big"])
def test_case_s17_a_file_that_changes_once_is_read_again_and_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = bench.make("pod") / "log"
    path.write_bytes(os.urandom(size))
    on_read(monkeypatch, path, grow(path), times=1)
    outcome = bench.capture("pod", "snap_1")
    assert outcome.summary.torn == []
    monkeypatch.undo()
    bench.make("new")
    bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []


@pytest.mark.parametrize("size", [1000, 3 << 20, 20 << 20], ids=["small", "chunk", "big"])
def test_case_s17_a_file_that_never_rests_is_marked_torn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = bench.make("pod") / "log"
    path.write_bytes(os.urandom(size))
    (bench.tree("pod") / "calm").write_bytes(b"calm")
    on_read(monkeypatch, path, grow(path), times=1000)
    outcome = bench.capture("pod", "snap_1")
    assert outcome.summary.torn == ["log: as read"]
    root = load_root(CountingStore(bench.store_directory, "snap_1"), "snap_1")
    assert (root.torn, root.counts["torn"]) == (["log: as read"], 1)
    monkeypatch.undo()
    bench.make("new")
    bench.restore("new", "snap_1")
    assert (bench.tree("new") / "calm").read_bytes() == b"calm"
    assert (bench.tree("new") / "log").stat().st_size >= size


@pytest.mark.usefixtures("trusting")
def test_a_torn_file_is_read_again_by_the_next_capture(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "log"
    path.write_bytes(b"x" * 1000)
    on_read(monkeypatch, path, grow(path), times=1000)
    bench.capture("pod", "snap_1")
    monkeypatch.undo()
    assert bench.capture("pod", "snap_2", parent="snap_1").summary.torn == []


def test_a_file_that_shrinks_to_nothing_is_captured(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "log"
    path.write_bytes(os.urandom(20 << 20))
    on_read(monkeypatch, path, lambda: os.truncate(path, 0), times=1)
    assert bench.capture("pod", "snap_1").summary.torn == []
    bench.make("new")
    bench.restore("new", "snap_1")
    assert (bench.tree("new") / "log").read_bytes() == b""


def test_what_cannot_be_read_is_reported_and_not_deleted_by_a_restore(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bench.make("pod")
    (tree / "bad").write_bytes(b"unreadable")
    (tree / "good").write_bytes(b"good")
    status = (tree / "bad").stat()
    original = os.preadv

    def preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        if os.fstat(fd).st_ino == status.st_ino:
            raise OSError(5, "Input/output error")
        return original(fd, buffers, offset)

    on_preadv(monkeypatch, preadv)
    outcome = bench.capture("pod", "snap_1")
    monkeypatch.undo()
    assert outcome.summary.unreadable == ["bad: EIO"]
    again = bench.restore("pod", "snap_1")
    assert (tree / "bad").read_bytes() == b"unreadable"
    assert again.warnings == ["unreadable_at_capture: bad: its content is not in the snapshot"]
    bench.make("new")
    bench.restore("new", "snap_1")
    assert sorted(p.name for p in bench.tree("new").iterdir()) == ["good"]


_INSIDE_NAMESPACE = """
import subprocess, sys
base = sys.argv[1]
def sh(*words):
    subprocess.run(words, check=True)
sh("mount", "--make-rprivate", "/")
sh("mount", "--bind", f"{base}/elsewhere", f"{base}/pod/mnt/vol ume")
sh("mount", "--bind", f"{base}/elsewhere/file", f"{base}/pod/etc/injected")
sh("mount", "-t", "tmpfs", "tmpfs", f"{base}/pod/cache")
open(f"{base}/pod/cache/x", "w").close()
from pathlib import Path
from tests.agent.snapshot.conftest import Bench
bench = Bench(Path(base), kind="environment")
bench.capture("pod", "snap_1")
bench.restore("pod", "snap_old")
"""


@needs_root
def test_mounts_inside_the_tree_are_not_captured_written_or_deleted(environment: Bench) -> None:
    """Bind mounts of the same filesystem have the same device number: only mountinfo tells."""
    bench = environment
    tree = bench.make("pod")
    for name in ("mnt/vol ume", "etc", "cache", "usr"):
        (tree / name).mkdir(parents=True)
    (tree / "etc/injected").write_bytes(b"")
    (tree / "usr/tool").write_bytes(b"tool")
    elsewhere = bench.base / "elsewhere"
    elsewhere.mkdir()
    for name in ("file", "data"):
        (elsewhere / name).write_bytes(b"of the machine")
    # An older snapshot in which those places were ordinary, and full of other things.
    old = bench.make("older")
    (old / "mnt/vol ume/below").mkdir(parents=True)
    (old / "etc").mkdir()
    (old / "etc/injected").write_bytes(b"from the snapshot")
    (old / "cache").write_bytes(b"even a file")
    bench.capture("older", "snap_old")
    run_apart(_INSIDE_NAMESPACE, bench.base)
    assert sorted(p.name for p in elsewhere.iterdir()) == ["data", "file"]
    assert (elsewhere / "file").read_bytes() == b"of the machine"
    assert not (tree / "usr").exists()
    assert not (tree / "mnt/vol ume/below").exists()
    assert (tree / "cache").is_dir()
    bench.make("new")
    bench.restore("new", "snap_1")
    found = sorted(trees.snapshot_of_disk(bench.tree("new")))
    assert found == [b"", b"cache", b"etc", b"mnt", b"mnt/vol ume", b"usr", b"usr/tool"]


_BEHIND_A_LINK = """
import subprocess, sys
base = sys.argv[1]
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "--bind", f"{base}/elsewhere", f"{base}/disk/mounted"], check=True)
from pathlib import Path
from tests.agent.snapshot.conftest import Bench
bench = Bench(Path(base))
bench.capture("pod", "snap_1")
bench.restore("pod", "snap_empty")
"""


@needs_root
def test_mounts_are_seen_in_a_volume_that_is_reached_through_a_link(bench: Bench) -> None:
    """Providers make /workspace a link to their disk; mountinfo has the real path."""
    bench.make("empty")
    bench.capture("empty", "snap_empty")
    disk, elsewhere = bench.base / "disk", bench.base / "elsewhere"
    for directory in (disk / "mounted", elsewhere, bench.root("pod")):
        directory.mkdir(parents=True)
    (elsewhere / "file").write_bytes(b"of the machine")
    (disk / "own").write_bytes(b"of the pod")
    bench.tree("pod").symlink_to(disk)
    run_apart(_BEHIND_A_LINK, bench.base)
    assert (elsewhere / "file").read_bytes() == b"of the machine"
    assert not (disk / "own").exists()
    bench.make("new")
    bench.restore("new", "snap_1")
    assert sorted(trees.snapshot_of_disk(bench.tree("new"))) == [b"", b"mounted", b"own"]


def test_an_environment_leaves_out_the_volume_and_what_belongs_to_the_machine(
    environment: Bench,
) -> None:
    tree = environment.make("pod")
    for name in (
        "etc/hosts",
        "etc/app.conf",
        "tmp/x",
        "tmp/mine/y",
        "proc/1",
        "workspace/w",
        "opt/cache/z",
        "opt/a",
        ".podferry/state/s",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(name.encode())
    (tree / "tmp").chmod(0o1777)
    environment.capture("pod", "snap_1", user_rules=("exclude /opt/cache", "include /tmp/mine/**"))
    environment.make("new")
    environment.restore("new", "snap_1")
    found = sorted(trees.snapshot_of_disk(environment.tree("new")))
    expected = [
        b"",
        b"etc",
        b"etc/app.conf",
        b"opt",
        b"opt/a",
        b"proc",
        b"tmp",
        b"tmp/mine",
        b"tmp/mine/y",
        b"workspace",
    ]
    assert found == expected
    assert (environment.tree("new") / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_leftovers_of_a_killed_restore_are_never_captured(bench: Bench) -> None:
    tree = bench.make("pod")
    (tree / ".~pfr-stage").mkdir()
    (tree / ".~pfr-stage/x").write_bytes(b"x")
    (tree / "sub").mkdir()
    (tree / "sub/.~pfr-0123").write_bytes(b"x")
    assert bench.capture("pod", "snap_1").summary.entries == 2


def test_progress_is_reported_with_totals_at_the_end(bench: Bench) -> None:
    (bench.make("pod") / "file").write_bytes(b"x" * 5000)
    seen: list[Progress] = []
    bench.capture("pod", "snap_1", progress=seen.append)
    read = [p for p in seen if p.phase == "read"][-1]
    assert (read.bytes_done, read.bytes_total, read.files_done, read.files_total) == (
        5000,
        5000,
        1,
        1,
    )
    assert [p.phase for p in seen if p.phase != "read"] == ["prepare", "publish"]


def test_a_cancelled_capture_stops_and_publishes_nothing(bench: Bench) -> None:
    tree = bench.make("pod")
    for number in range(30):
        (tree / f"file{number}").write_bytes(os.urandom(2 << 20))
    cancelled = threading.Event()

    def report(progress: Progress) -> None:
        if progress.phase == "read":
            cancelled.set()

    with pytest.raises(CancelledByCallerError):
        bench.capture("pod", "snap_1", progress=report, cancelled=cancelled)
    store = CountingStore(bench.store_directory, "snap_1")
    assert not (bench.store_directory / "snap_1/root").exists()
    assert store.names == []


def test_a_spec_that_makes_no_sense_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidSpecError, match="must have 32"):
        bench.capture("pod", "snap_1", chunk_key=b"short")
    with pytest.raises(InvalidSpecError, match="environment or volume"):
        bench.capture("pod", "snap_1", kind="disk")
    with pytest.raises(InvalidSpecError, match="absolute"):
        bench.capture("pod", "snap_1", root=b"relative")
    with pytest.raises(CaptureFailedError, match="cannot be opened"):
        bench.capture("nowhere", "snap_1")
    bench.make("pod")
    bench.capture("pod", "snap_0")
    with pytest.raises(InvalidSpecError, match="the parent snap_0 is of kind volume"):
        Bench(bench.base, "environment").capture("pod", "snap_1", parent="snap_0")
    with pytest.raises(InvalidRuleError):
        bench.capture("pod", "snap_1", user_rules=("forget /x",))
