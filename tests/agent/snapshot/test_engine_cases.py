"""Cases of the engine as a whole: what counts as success, what a strange machine cannot spoil."""

import os
import random
import struct
import time
from dataclasses import replace

import pytest

from podferry_agent.snapshot import RestoreHooks, SnapshotCorruptError, packs
from podferry_agent.snapshot.codec import Codec
from podferry_agent.snapshot.manifest import Root, load_root
from tests.agent.snapshot import trees
from tests.agent.snapshot.children import OTHER_USER, become_another_user, in_child
from tests.agent.snapshot.conftest import Bench, CountingStore
from tests.agent.snapshot.namespaces import run_apart

needs_root = pytest.mark.skipif(not trees.IS_ROOT, reason="needs root")


def rewrite_root(bench: Bench, **changes: object) -> None:
    """Another root with a right checksum, as a fault of a writer would leave it."""
    root = load_root(CountingStore(bench.store_directory, "snap_1"), "snap_1")
    changed: Root = replace(root, **changes)  # type: ignore[arg-type]
    (bench.store_directory / "snap_1/root").write_bytes(changed.encode())


NO_COUNTS = dict.fromkeys(("entries", "files", "directories", "bytes", "torn", "unreadable"), 0)


@pytest.mark.parametrize(
    "changes",
    [{"pages": []}, {"pages": [], "counts": NO_COUNTS}, {"counts": NO_COUNTS}],
    ids=["no pages", "no pages and no counts", "no counts"],
)
def test_case_s7_a_manifest_without_its_files_is_an_error_and_deletes_nothing(
    bench: Bench, changes: dict[str, object]
) -> None:
    for machine in ("pod", "live"):
        (bench.make(machine) / machine).write_bytes(b"work of days")
    bench.capture("pod", "snap_1")
    rewrite_root(bench, **changes)
    with pytest.raises(SnapshotCorruptError):
        bench.restore("live", "snap_1")
    assert (bench.tree("live") / "live").read_bytes() == b"work of days"


def test_case_s7_a_restore_reports_the_files_and_bytes_that_are_there(bench: Bench) -> None:
    tree = bench.make("pod")
    for number in range(7):
        (tree / f"file{number}").write_bytes(b"x" * number)
    summary = bench.capture("pod", "snap_1").summary
    bench.make("new")
    outcome = bench.restore("new", "snap_1")
    files = [path for path in bench.tree("new").iterdir() if path.is_file()]
    assert (outcome.files, outcome.bytes) == (len(files), sum(p.stat().st_size for p in files))
    assert (outcome.files, outcome.bytes) == (summary.files, summary.bytes) == (7, 21)


def test_deletions_come_after_everything_new_is_in_place(bench: Bench) -> None:
    """Deleting first makes creating slow on ext4, and leaves less behind when it is killed."""
    pod, live = bench.make("pod"), bench.make("live")
    for number in range(20):
        (pod / f"new{number}").write_bytes(b"x")
        (live / f"old{number}").write_bytes(b"x")
    bench.capture("pod", "snap_1")
    steps: list[str] = []
    bench.restore("live", "snap_1", hooks=RestoreHooks(step=steps.append))
    assert steps.count("place") == steps.count("delete") == 20
    assert steps.index("delete") > max(i for i, step in enumerate(steps) if step == "place")


@pytest.mark.usefixtures("trusting")
def test_a_tree_whose_inodes_all_have_other_numbers_uploads_nothing(bench: Bench) -> None:
    """As an overlay shows it after a restart."""
    bench.root("pod").mkdir()
    trees.make_torture(bench.tree("pod"))
    bench.capture("pod", "snap_1")
    bench.make("copy")
    bench.restore("copy", "snap_1")
    trees.remove(bench.tree("pod"))
    bench.tree("copy").rename(bench.tree("pod"))
    bench.capture("pod", "snap_2", parent="snap_1")
    store = bench.last_store
    assert store is not None
    assert store.names == ["root"]


@pytest.mark.parametrize("hours", [-5000, 5000], ids=["behind", "ahead"])
def test_a_wrong_clock_hides_no_change(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """The engine's clock is only compared with the file system's, never trusted for an order."""
    tree = bench.make("pod")
    (tree / "file").write_bytes(b"before")
    bench.capture("pod", "snap_1")
    monkeypatch.setattr("time.time_ns", lambda offset=hours * 3600 * 10**9: offset + 1)
    (tree / "file").write_bytes(b"after!")
    os.utime(tree / "file", ns=(1, 1))
    bench.capture("pod", "snap_2", parent="snap_1")
    bench.make("new")
    bench.restore("new", "snap_2")
    assert bench.differences("pod", "new") == []


@pytest.mark.parametrize("kind", ["bf16", "fp32", "text", "noise"])
def test_compression_leaves_what_it_is_given_as_it_was(kind: str) -> None:
    rng = random.Random(3)
    numbers = [rng.gauss(0, 0.02) for _ in range(80_000)]
    fp32 = struct.pack("<80000f", *numbers)
    data = {
        "bf16": b"".join(fp32[at + 2 : at + 4] for at in range(0, len(fp32), 4)),
        "fp32": fp32,
        "text": b"some text " * 30_000,
        "noise": rng.randbytes(300_000),
    }[kind]
    given = bytearray(data)
    codec = Codec()
    codec.encode(memoryview(given).toreadonly())
    codec.encode(memoryview(given))
    assert given == data


@pytest.mark.parametrize("damage", ["empty", "short", "flipped"])
def test_notes_of_a_killed_capture_that_were_damaged_are_not_believed(
    bench: Bench, damage: str
) -> None:
    """A power cut may leave such files; the same capture must then go on without them."""
    tree = bench.make("pod")
    for number in range(3):
        (tree / f"file{number}").write_bytes(os.urandom(3 << 20))

    class Dying(CountingStore):
        def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
            if name.startswith("pages/"):
                raise OSError(5, "the machine loses power")
            super().put(name, body, sha256)

    with pytest.raises(OSError, match="loses power"):
        bench.capture("pod", "snap_1", store=Dying(bench.store_directory, "snap_1"))
    notes = list((bench.base / "state-pod/snapshots/volume/packs/snap_1").iterdir())
    assert notes
    for note in notes:
        body = bytearray(note.read_bytes())
        body[len(body) // 2] ^= 1
        note.write_bytes({"empty": b"", "short": body[:20], "flipped": body}[damage])
    bench.capture("pod", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []


@pytest.mark.parametrize("damage", ["empty", "short", "flipped", "old version"])
def test_facts_that_were_damaged_are_not_believed(bench: Bench, damage: str) -> None:
    tree = bench.make("pod")
    (tree / "file").write_bytes(b"x")
    bench.capture("pod", "snap_1")
    facts = bench.base / "state-pod/snapshots/volume/facts/snap_1"
    body = facts.read_bytes()
    flipped = bytearray(body)
    flipped[len(body) // 2] ^= 1
    bodies = {"empty": b"", "short": body[:30], "flipped": flipped, "old version": b"PFSTAT01x"}
    facts.write_bytes(bodies[damage])
    (tree / "file").write_bytes(b"y")
    bench.capture("pod", "snap_2", parent="snap_1")
    bench.make("new")
    bench.restore("new", "snap_2")
    assert bench.differences("pod", "new") == []


class SlowStore(CountingStore):
    """Knows how much of what was read has arrived; slower than any disk."""

    arrived = 0

    def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
        time.sleep(0.02)
        super().put(name, body, sha256)
        self.arrived += len(body)


def test_reading_waits_for_the_store_so_that_memory_does_not_grow_with_the_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "PACK_TARGET", 1 << 20)
    (bench.make("pod") / "disk.img").write_bytes(os.urandom(64 << 20))
    store = SlowStore(bench.store_directory, "snap_1")
    ahead: list[int] = []
    bench.capture(
        "pod",
        "snap_1",
        store=store,
        progress=lambda progress: ahead.append(progress.bytes_done - store.arrived),
    )
    assert 0 < max(ahead) < 24 << 20


@needs_root
def test_what_an_ordinary_user_may_not_read_is_reported_and_left_alone_later(bench: Bench) -> None:
    tree = bench.make("pod")
    (tree / "good").write_bytes(b"good")
    (tree / "secret").write_bytes(b"secret")
    (tree / "secret").chmod(0o600)
    (tree / "closed").mkdir()
    (tree / "closed/inside").write_bytes(b"inside")
    (tree / "closed").chmod(0o700)
    (tree / "unsearchable").mkdir()
    (tree / "unsearchable/inside").write_bytes(b"inside")
    (tree / "unsearchable").chmod(0o744)
    (bench.base / "store").mkdir()
    (bench.base / "state-pod").mkdir()
    for path in (bench.base / "store", bench.base / "state-pod"):
        os.chown(path, OTHER_USER, OTHER_USER)
    for parent in bench.base.parents:
        if parent.is_relative_to("/tmp") and parent.stat().st_mode & 0o5 != 0o5:
            parent.chmod(parent.stat().st_mode | 0o5)

    def capture() -> str:
        become_another_user()
        return "\n".join(bench.capture("pod", "snap_1").summary.unreadable)

    assert in_child(capture).splitlines() == [
        "closed: EACCES",
        "secret: EACCES",
        "unsearchable/inside: EACCES",
    ]
    outcome = bench.restore("pod", "snap_1")
    assert (tree / "secret").read_bytes() == b"secret"
    assert (tree / "closed/inside").read_bytes() == b"inside"
    assert (tree / "unsearchable/inside").read_bytes() == b"inside"
    assert outcome.deleted == 0
    bench.make("new")
    bench.restore("new", "snap_1")
    found = sorted(path.name for path in bench.tree("new").rglob("*"))
    assert found == ["closed", "good", "unsearchable"]


_ON_RAMFS = """
import subprocess, sys
base = sys.argv[1]
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "-t", "ramfs", "ramfs", f"{base}/mid"], check=True)
from pathlib import Path
from tests.agent.snapshot.conftest import Bench
bench = Bench(Path(base))
bench.make("mid")
print(*bench.restore("mid", "snap_1").warnings, sep="\\n")
print(bench.capture("mid", "snap_2").summary.unreadable)
"""


@needs_root
def test_attributes_that_a_filesystem_does_not_have_are_reported_and_nothing_else_is_lost(
    bench: Bench,
) -> None:
    tree = bench.make("pod")
    (tree / "file").write_bytes(b"content")
    os.setxattr(tree / "file", "user.note", b"v")
    (tree / "plain").write_bytes(b"plain")
    (tree / "plain").chmod(0o4711)
    os.chown(tree / "plain", 12, 34)
    bench.root("mid").mkdir()
    bench.capture("pod", "snap_1")
    printed = run_apart(_ON_RAMFS, bench.base)
    assert printed.splitlines()[0] == "xattrs_not_applied: file: ENOTSUP"
    assert printed.splitlines()[-1] == "[]"
    bench.make("new")
    bench.restore("new", "snap_2")
    os.removexattr(tree / "file", "user.note")
    assert trees.differing(_without_top_time(bench, "pod"), _without_top_time(bench, "new")) == []


_ON_A_SMALL_DISK = """
import subprocess, sys
base = sys.argv[1]
live = f"{base}/live/workspace"
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=60", "tmpfs", live], check=True)
from pathlib import Path
from podferry_agent.snapshot import DiskFullError
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench
bench = Bench(Path(base))
Path(live, "old").write_bytes(b"old content")
try:
    bench.restore("live", "snap_1")
except DiskFullError:
    print(sorted(p.name for p in Path(live).iterdir() if not p.name.startswith(".~pfr-")))
subprocess.run(["mount", "-o", "remount,nr_inodes=1000", live], check=True)
bench.restore("live", "snap_1")
print(trees.differing(
    *({p: f[:3] + f[4:] for p, f in trees.snapshot_of_disk(bench.tree(m)).items()}
      for m in ("pod", "live"))
))
"""


@needs_root
def test_case_s13_a_disk_that_fills_up_while_files_are_staged_changes_nothing_and_goes_on_later(
    bench: Bench,
) -> None:
    """Out of inodes, which no sum of bytes foretells."""
    tree = bench.make("pod")
    for number in range(100):
        (tree / f"file{number}").write_bytes(b"%d" % number)
    bench.capture("pod", "snap_1")
    bench.make("live")
    printed = run_apart(_ON_A_SMALL_DISK, bench.base)
    assert printed.splitlines() == ["['old']", "[]"]


def _without_top_time(bench: Bench, machine: str) -> trees.Disk:
    disk = trees.snapshot_of_disk(bench.tree(machine))
    disk.pop(b"")
    return disk
