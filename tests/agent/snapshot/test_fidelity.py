"""What goes in comes out: every kind of name and attribute."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench

needs_root = pytest.mark.skipif(not trees.IS_ROOT, reason="needs root")


def test_case_s11_a_tree_of_every_awkward_kind_is_restored_without_a_difference(
    bench: Bench,
) -> None:
    bench.root("old").mkdir()
    trees.make_torture(bench.tree("old"))
    before = trees.snapshot_of_disk(bench.tree("old"))
    bench.capture("old", "snap_1")
    assert trees.differing(before, trees.snapshot_of_disk(bench.tree("old"))) == []
    bench.make("new")
    outcome = bench.restore("new", "snap_1")
    assert bench.differences("old", "new") == []
    assert bench.verify("new", "snap_1") == []
    assert outcome.warnings == []
    regular = [facts for facts in before.values() if stat.S_ISREG(int(str(facts[0]), 8))]
    assert outcome.files == len(regular)


def test_a_restored_tree_that_is_captured_again_makes_the_same_pages(bench: Bench) -> None:
    bench.root("old").mkdir()
    trees.make_torture(bench.tree("old"))
    bench.capture("old", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    bench.capture("new", "snap_2", parent="snap_1")
    assert bench.last_store is not None
    assert bench.last_store.names == ["root"]


def test_a_second_restore_changes_nothing(bench: Bench) -> None:
    bench.root("old").mkdir()
    trees.make_torture(bench.tree("old"))
    bench.capture("old", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    inodes = {p: p.lstat().st_ino for p in bench.tree("new").iterdir()}
    again = bench.restore("new", "snap_1")
    assert (again.written_bytes, again.deleted) == (0, 0)
    assert {p: p.lstat().st_ino for p in bench.tree("new").iterdir()} == inodes


def test_a_sparse_file_of_four_terabytes_is_captured_and_restored_at_once(bench: Bench) -> None:
    tree = bench.make("old")
    with (tree / "huge").open("wb") as file:
        file.truncate(4 << 40)
        file.seek(1 << 40)
        file.write(b"in the middle")
    outcome = bench.capture("old", "snap_1")
    assert outcome.summary.new_bytes < 1 << 20
    bench.make("new")
    bench.restore("new", "snap_1")
    assert (bench.tree("new") / "huge").stat().st_blocks == (tree / "huge").stat().st_blocks
    assert bench.differences("old", "new") == []


def test_zeros_that_were_written_stay_allocated_and_holes_stay_holes(bench: Bench) -> None:
    tree = bench.make("old")
    (tree / "zeros").write_bytes(bytes(2 << 20))
    with (tree / "holes").open("wb") as file:
        file.truncate(2 << 20)
    bench.capture("old", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    assert (bench.tree("new") / "zeros").stat().st_blocks >= 4096
    assert (bench.tree("new") / "holes").stat().st_blocks == 0


def test_a_filled_file_gets_its_holes_back(bench: Bench) -> None:
    tree = bench.make("old")
    with (tree / "holes").open("wb") as file:
        file.truncate(2 << 20)
    bench.capture("old", "snap_1")
    (bench.make("new") / "holes").write_bytes(bytes(2 << 20))
    bench.restore("new", "snap_1")
    assert (bench.tree("new") / "holes").stat().st_blocks == 0


def test_sockets_are_kept_in_a_volume_and_not_in_an_environment(base: Path) -> None:
    for kind, expected in (("volume", True), ("environment", False)):
        bench = Bench(base / kind, kind)
        tree = bench.make("old")
        os.mknod(tree / "socket", 0o140600)
        bench.capture("old", "snap_1")
        bench.make("new")
        bench.restore("new", "snap_1")
        assert (bench.tree("new") / "socket").exists() is expected


def test_the_top_directory_keeps_its_mode_owner_and_time(bench: Bench) -> None:
    tree = bench.make("old")
    tree.chmod(0o2750)
    os.utime(tree, ns=(1, 1111111111111111111))
    bench.capture("old", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    status = bench.tree("new").stat()
    assert (status.st_mode & 0o7777, status.st_mtime_ns) == (0o2750, 1111111111111111111)


def test_a_default_acl_does_not_leak_onto_files_that_are_restored(bench: Bench) -> None:
    tree = bench.make("old")
    inner = tree / "inner"
    inner.mkdir()
    (inner / "file").write_bytes(b"x")
    (inner / "below").mkdir()
    try:
        os.setxattr(inner, "system.posix_acl_default", trees.acl())
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip(f"no ACLs on this filesystem: {error}")
    bench.capture("old", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    assert bench.differences("old", "new") == []


_INSIDE = """
import sys, threading
from podferry_agent.snapshot import CaptureSpec, RestoreSpec, capture, restore
from podferry_agent.snapshot.directorystore import DirectoryStore
from pathlib import Path
base, sid = sys.argv[1], sys.argv[3]
fields = dict(kind="volume", chunk_key=bytes(range(32)), root=f"{base}/mid".encode(), state_dir=f"{base}/state-mid".encode())
outcome = restore(RestoreSpec(snapshot_id="snap_1", **fields), DirectoryStore(Path(base) / "store"), lambda p: None, threading.Event())
print(*outcome.warnings, sep="\\n")
capture(CaptureSpec(snapshot_id=sid, **fields), DirectoryStore(Path(base) / "store", sid), lambda p: None, threading.Event())
"""


@needs_root
def test_owners_and_devices_survive_a_machine_that_can_give_neither(bench: Bench) -> None:
    """A user namespace with a single uid: chown is EINVAL, mknod is EPERM."""
    tree = bench.make("old")
    (tree / "owned").write_bytes(b"x")
    os.chown(tree / "owned", 1234, 5678)
    (tree / "owned").chmod(0o4711)
    (tree / "caps").write_bytes(b"x")
    os.setxattr(tree / "caps", "security.capability", trees.CAP_NET_RAW)
    os.setxattr(tree / "caps", "trusted.note", b"only the real root may")
    (tree / "directory").mkdir()
    os.setxattr(tree / "directory", "trusted.note", b"of a directory")
    os.chown(tree / "directory", 77, 88)
    os.mknod(tree / "null", 0o20640, os.makedev(1, 3))
    bench.capture("old", "snap_1")
    bench.make("mid")
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        sys.executable,
        "-c",
        _INSIDE,
        str(bench.base),
        "-",
        "snap_2",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip("user namespaces are not allowed here")
    assert done.returncode == 0, done.stderr
    assert "owner_not_applied: owned: EINVAL" in done.stdout
    assert "device_not_made: null: EPERM" in done.stdout
    assert "xattrs_not_applied: caps: EPERM" in done.stdout
    bench.make("new")
    bench.restore("new", "snap_2")
    assert bench.differences("old", "new") == []


@needs_root
def test_an_ordinary_user_restores_what_it_may_and_keeps_the_owners_for_later(bench: Bench) -> None:
    tree = bench.make("old")
    (tree / "owned").write_bytes(b"x")
    os.chown(tree / "owned", 1234, 5678)
    (tree / "read-only").write_bytes(b"x")
    (tree / "read-only").chmod(0o444)
    (tree / "locked").mkdir()
    (tree / "locked" / "file").write_bytes(b"x")
    (tree / "locked").chmod(0o555)
    bench.capture("old", "snap_1")
    bench.make("mid")
    for path in (bench.base, *bench.base.rglob("*")):
        if "old" not in path.parts:
            os.chown(path, 4242, 4242, follow_symlinks=False)
    for parent in bench.base.parents:
        if parent.stat().st_mode & 0o5 != 0o5 and parent.is_relative_to("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o5)
    command = [
        "setpriv",
        "--reuid=4242",
        "--regid=4242",
        "--clear-groups",
        sys.executable,
        "-B",
        "-c",
        _INSIDE,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, str(bench.base), "-", "snap_2"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if "Permission denied" in done.stderr and "podferry_agent" not in done.stderr:
        pytest.skip("the interpreter is out of reach of other users")
    assert done.returncode == 0, done.stderr
    bench.make("new")
    bench.restore("new", "snap_2")
    assert bench.differences("old", "new") == []
