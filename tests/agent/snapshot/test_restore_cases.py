"""Restoring over a tree that is there: deletions, links, locks, limits."""

import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from podferry_agent.snapshot import (
    CancelledByCallerError,
    DiskFullError,
    Progress,
    RestoreHooks,
    RestoreMismatchError,
)
from podferry_agent.snapshot.mapped import programs_with_deleted_files
from podferry_agent.snapshot.stage import StageDirectory
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench

needs_root = pytest.mark.skipif(not trees.IS_ROOT, reason="needs root")


def test_what_the_base_has_and_the_snapshot_has_not_is_deleted(environment: Bench) -> None:
    pod = environment.make("pod")
    (pod / "etc").mkdir()
    (pod / "etc/app").write_bytes(b"app")
    environment.capture("pod", "snap_1", user_rules=("exclude /cache",))
    live = environment.make("live")
    for name in (
        "etc/extra",
        "opt/a/b/c",
        "etc/hosts",
        "tmp/x",
        "cache/c",
        "workspace/w",
        "opt/keep/.ssh",
    ):
        (live / name).parent.mkdir(parents=True, exist_ok=True)
        (live / name).write_bytes(b"base")
    (live / "dangling").symlink_to("nowhere")
    outcome = environment.restore("live", "snap_1")
    found = sorted(p.relative_to(live).as_posix() for p in live.rglob("*"))
    assert found == [
        "cache",
        "cache/c",
        "etc",
        "etc/app",
        "etc/hosts",
        "tmp",
        "tmp/x",
        "workspace",
        "workspace/w",
    ]
    assert outcome.deleted == 8


def test_present_machine_rules_protect_and_present_includes_do_not_delete(
    environment: Bench,
) -> None:
    pod = environment.make("pod")
    (pod / "provider").mkdir()
    (pod / "provider/key").write_bytes(b"of another machine")
    environment.capture("pod", "snap_1")
    live = environment.make("live")
    for name in ("provider/key", "provider/other", "tmp/mine"):
        (live / name).parent.mkdir(exist_ok=True)
        (live / name).write_bytes(b"of this machine")
    environment.restore("live", "snap_1", user_rules=("machine /provider/**", "include /tmp/mine"))
    assert (live / "provider/key").read_bytes() == b"of this machine"
    assert (live / "provider/other").exists()
    assert (live / "tmp/mine").exists()


def test_types_change_in_every_direction(bench: Bench) -> None:
    def build(tree: Path, shift: int) -> None:
        for number in range(5):
            path = tree / f"name{number}"
            kind = (number + shift) % 5
            if kind == 0:
                path.write_bytes(b"file")
            elif kind == 1:
                (path / "inner/deep").mkdir(parents=True)
                (path / "inner/file").write_bytes(b"inner")
            elif kind == 2:
                path.symlink_to("target")
            elif kind == 3:
                os.mkfifo(path)
            else:
                os.mknod(path, 0o140644)

    build(bench.make("pod"), 0)
    bench.capture("pod", "snap_1")
    for shift in range(1, 5):
        build(bench.make(f"live{shift}"), shift)
        bench.restore(f"live{shift}", "snap_1")
        assert bench.differences("pod", f"live{shift}") == []


def test_wrong_links_are_broken_and_missing_ones_made(bench: Bench) -> None:
    pod = bench.make("pod")
    for name in ("a", "b", "c", "d"):
        (pod / name).write_bytes(b"same")
        os.utime(pod / name, ns=(1, 1))
    (pod / "d").unlink()
    os.link(pod / "c", pod / "d")
    bench.capture("pod", "snap_1")
    live = bench.make("live")
    (live / "a").write_bytes(b"same")
    os.utime(live / "a", ns=(1, 1))
    for name in ("b", "c", "extra"):
        os.link(live / "a", live / name)
    (live / "d").write_bytes(b"same")
    bench.restore("live", "snap_1")
    assert bench.differences("pod", "live") == []


def test_an_equal_file_is_left_as_it_is_and_an_impostor_is_not(bench: Bench) -> None:
    pod = bench.make("pod")
    for name in ("equal", "impostor", "other-mode"):
        (pod / name).write_bytes(b"content of a file")
        os.utime(pod / name, ns=(1, 1))
    bench.capture("pod", "snap_1")
    live = bench.make("live")
    shutil.copytree(pod, live, dirs_exist_ok=True)
    (live / "impostor").write_bytes(b"content of A file")
    os.utime(live / "impostor", ns=(1, 1))
    (live / "other-mode").chmod(0o600)
    inodes = {p.name: p.stat().st_ino for p in live.iterdir()}
    outcome = bench.restore("live", "snap_1")
    now = {p.name: p.stat().st_ino for p in live.iterdir()}
    assert [name for name in inodes if inodes[name] != now[name]] == ["impostor"]
    assert outcome.written_bytes == 17
    assert bench.differences("pod", "live") == []


def test_a_running_program_keeps_its_old_file(bench: Bench) -> None:
    pod = bench.make("pod")
    (pod / "data").write_bytes(b"new")
    bench.capture("pod", "snap_1")
    live = bench.make("live")
    (live / "data").write_bytes(b"old")
    with (live / "data").open("rb") as file:
        bench.restore("live", "snap_1")
        assert file.read() == b"old"
    assert (live / "data").read_bytes() == b"new"


def test_a_symlink_in_the_way_is_not_followed_out_of_the_tree(bench: Bench) -> None:
    pod = bench.make("pod")
    (pod / "dir").mkdir()
    (pod / "dir/file").write_bytes(b"restored")
    bench.capture("pod", "snap_1")
    outside = bench.base / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"not ours")
    (bench.make("live") / "dir").symlink_to(outside)
    bench.restore("live", "snap_1")
    assert (outside / "file").read_bytes() == b"not ours"
    assert bench.differences("pod", "live") == []


@needs_root
def test_immutable_files_are_replaced_and_their_flags_set_again(bench: Bench) -> None:
    if not trees.supports_flags(bench.base):
        pytest.skip("this filesystem or this user cannot set inode flags")
    pod, live = bench.make("pod"), bench.make("live")
    for tree, text in ((pod, b"new"), (live, b"old")):
        (tree / "dir").mkdir()
        for name in ("dir/file", "append"):
            (tree / name).write_bytes(text)
    (live / "dir/extra").write_bytes(b"x")
    trees.set_inode_flags(os.fsencode(pod / "append"), 0x20)
    bench.capture("pod", "snap_1")
    trees.set_inode_flags(os.fsencode(live / "dir/file"), 0x10)
    trees.set_inode_flags(os.fsencode(live / "dir/extra"), 0x10)
    trees.set_inode_flags(os.fsencode(live / "dir"), 0x10)
    outcome = bench.restore("live", "snap_1")
    assert outcome.warnings == []
    assert bench.differences("pod", "live") == []


def test_a_volume_with_a_deep_tree_is_emptied_and_filled(bench: Bench) -> None:
    bench.make("empty")
    bench.capture("empty", "snap_empty")
    bench.root("deep").mkdir()
    trees.make_torture(bench.tree("deep"))
    outcome = bench.restore("deep", "snap_empty")
    assert outcome.deleted >= 80
    assert bench.differences("empty", "deep") == []


def test_a_cancelled_restore_leaves_the_tree_alone(bench: Bench) -> None:
    (bench.make("pod") / "file").write_bytes(os.urandom(100_000))
    bench.capture("pod", "snap_1")
    (bench.make("live") / "old").write_bytes(b"old")
    for phase in ("prepare", "compare", "stage", "swap"):
        cancelled = threading.Event()

        def report(
            progress: Progress, wanted: str = phase, event: threading.Event = cancelled
        ) -> None:
            if progress.phase == wanted:
                event.set()

        with pytest.raises(CancelledByCallerError):
            bench.restore("live", "snap_1", progress=report, cancelled=cancelled)
        assert [p.name for p in bench.tree("live").iterdir() if p.name[0] != "."] == ["old"]


def test_after_the_swap_has_begun_cancelling_is_too_late(bench: Bench) -> None:
    (bench.make("pod") / "file").write_bytes(b"x")
    bench.capture("pod", "snap_1")
    bench.make("live")
    cancelled = threading.Event()
    hooks = RestoreHooks(step=lambda step: cancelled.set() if step == "place" else None)
    bench.restore("live", "snap_1", cancelled=cancelled, hooks=hooks)
    assert bench.differences("pod", "live") == []


def test_a_disk_that_is_too_small_is_found_before_anything_is_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.make("pod") / "file").write_bytes(os.urandom(100_000))
    bench.capture("pod", "snap_1")
    bench.make("live")
    monkeypatch.setattr(StageDirectory, "room", lambda _: 1000)
    with pytest.raises(DiskFullError, match="the disk has 1000 free"):
        bench.restore("live", "snap_1")


def test_a_file_that_another_program_keeps_changing_fails_the_restore(bench: Bench) -> None:
    (bench.make("pod") / "file").write_bytes(b"right")
    bench.capture("pod", "snap_1")
    live = bench.make("live")

    def spoil(step: str) -> None:
        if step == "metadata":
            (live / "file").write_bytes(b"wrong")

    with pytest.raises(RestoreMismatchError) as caught:
        bench.restore("live", "snap_1", hooks=RestoreHooks(step=spoil))
    assert caught.value.files == ["file"]
    assert caught.value.retryable


def test_a_file_that_was_changed_once_behind_our_back_is_mended(bench: Bench) -> None:
    (bench.make("pod") / "file").write_bytes(b"right")
    bench.capture("pod", "snap_1")
    live = bench.make("live")
    spoiled: list[str] = []

    def spoil(step: str) -> None:
        if step == "metadata" and not spoiled:
            (live / "file").write_bytes(b"wrong")
            spoiled.append(step)

    bench.restore("live", "snap_1", hooks=RestoreHooks(step=spoil))
    assert bench.differences("pod", "live") == []


def test_verify_names_every_kind_of_difference(bench: Bench) -> None:
    pod = bench.make("pod")
    for name in ("content", "mode", "mtime", "xattrs", "missing", "type", "link1"):
        (pod / name).write_bytes(b"x")
        os.utime(pod / name, ns=(1, 1))
    (pod / "target").symlink_to("here")
    os.link(pod / "link1", pod / "link2")
    bench.capture("pod", "snap_1")
    assert bench.verify("pod", "snap_1") == []
    (pod / "content").write_bytes(b"y")
    os.utime(pod / "content", ns=(1, 1))
    (pod / "mode").chmod(stat.S_IRUSR)
    os.utime(pod / "mtime", ns=(2, 2))
    os.setxattr(pod / "xattrs", "user.k", b"v")
    (pod / "missing").unlink()
    (pod / "type").unlink()
    (pod / "type").mkdir()
    (pod / "target").unlink()
    (pod / "target").symlink_to("elsewhere")
    (pod / "link2").unlink()
    (pod / "link2").write_bytes(b"x")
    os.utime(pod / "link2", ns=(1, 1))
    (pod / "extra").write_bytes(b"x")
    found = {(d.path.decode(), d.kind) for d in bench.verify("pod", "snap_1")}
    kinds = ("content", "mode", "mtime", "xattrs", "missing", "type", "target", "extra")
    assert {(kind, kind) for kind in kinds} <= found
    assert ("link2", "links") in found


def test_programs_on_replaced_files_are_named(tmp_path: Path) -> None:
    for pid, maps in (
        (1, b"7f00-7f01 r-xp 0 08:01 1 /lib/libc.so (deleted)\n"),
        (2, b"7f00-7f01 r-xp 0 08:01 1 /lib/libc.so\n7f02-7f03 rw-s 0 0:1 2 /dev/zero (deleted)\n"),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "maps").write_bytes(maps)
        (tmp_path / str(pid) / "comm").write_text(f"program{pid}\n")
    assert programs_with_deleted_files(tmp_path) == ["program1"]
    assert programs_with_deleted_files(tmp_path / "none") == []
