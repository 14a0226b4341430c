"""Programs that write while a capture reads: what a name was at one moment, and never a mixture."""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Self

import pytest

from podferry_agent.snapshot.reading import FileReader
from podferry_agent.snapshot.walk import Node
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench, on_scandir


def between_walk_and_read(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Do something once, when everything has been walked and nothing read."""
    lock = threading.Lock()
    done: list[bool] = []

    def once() -> None:
        with lock:
            if not done:
                done.append(True)
                action()

    read_small, read_big = FileReader.read_small, FileReader.read_big

    def small(reader: FileReader, batch: list[Node]) -> list[Node]:
        once()
        return read_small(reader, batch)

    def big(reader: FileReader, node: Node, workers: Executor) -> None:
        once()
        read_big(reader, node, workers)

    monkeypatch.setattr(FileReader, "read_small", small)
    monkeypatch.setattr(FileReader, "read_big", big)


def captured_and_restored(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Reports of the capture, with the tree as it is afterwards restored elsewhere."""
    summary = bench.capture("pod", "snap_1").summary
    monkeypatch.undo()
    bench.make("new")
    bench.restore("new", "snap_1")
    return [*summary.torn, *summary.unreadable]


def test_many_small_files_that_grow_before_they_are_read_are_captured_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive is being unpacked: together they no longer fit what is read at once."""
    tree = bench.make("pod")
    files = [tree / f"file{number:02}" for number in range(16)]
    for path in files:
        path.write_bytes(b"x")

    def grow() -> None:
        for path in files:
            path.write_bytes(os.urandom(900_000))

    between_walk_and_read(monkeypatch, grow)
    assert captured_and_restored(bench, monkeypatch) == []
    assert bench.differences("pod", "new") == []


@pytest.mark.parametrize("size", [10, 3 << 20], ids=["small", "big"])
def test_a_file_that_becomes_another_kind_before_it_is_read_is_no_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    tree = bench.make("pod")
    makers: dict[str, Callable[[Path], object]] = {
        "fifo": os.mkfifo,
        "directory": Path.mkdir,
        "symlink": lambda path: path.symlink_to("trigger"),
        "gone": lambda _: None,
    }
    (tree / "trigger").write_bytes(b"x")
    for name in makers:
        (tree / name).write_bytes(b"x" * size)

    def change() -> None:
        for name, make in makers.items():
            (tree / name).unlink()
            make(tree / name)

    between_walk_and_read(monkeypatch, change)
    assert captured_and_restored(bench, monkeypatch) == []
    assert [path.name for path in bench.tree("new").iterdir()] == ["trigger"]
    bench.capture("pod", "snap_2", parent="snap_1")
    bench.restore("new", "snap_2")
    assert bench.differences("pod", "new") == []


def test_a_directory_that_becomes_a_link_out_of_the_tree_is_not_followed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bench.make("pod")
    outside = bench.base / "outside"
    for directory in (tree / "dir/deeper", outside / "deeper"):
        directory.mkdir(parents=True)
        (directory / "file").write_bytes(os.fsencode(directory))
    (tree / "a").write_bytes(b"x")

    def change() -> None:
        shutil.rmtree(tree / "dir")
        (tree / "dir").symlink_to(outside)

    between_walk_and_read(monkeypatch, change)
    assert captured_and_restored(bench, monkeypatch) == []
    new = bench.tree("new")
    assert not [path for path in new.rglob("*") if path.is_file() and path.name != "a"]


def test_a_file_that_is_replaced_by_rename_is_one_of_the_two(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As editors and package managers save."""
    tree = bench.make("pod")
    for name in ("file", "other"):
        (tree / name).write_bytes(b"old" * 100)
    (tree / "file").chmod(0o600)

    def change() -> None:
        (tree / "file.tmp").write_bytes(b"new and longer" * 100)
        (tree / "file.tmp").chmod(0o640)
        (tree / "file.tmp").replace(tree / "file")

    between_walk_and_read(monkeypatch, change)
    assert captured_and_restored(bench, monkeypatch) == []
    left, right = (trees.snapshot_of_disk(bench.tree(name)) for name in ("pod", "new"))
    assert left[b"file"] == right[b"file"]


@pytest.mark.usefixtures("trusting")
def test_a_linked_file_that_is_written_while_it_is_read_stays_linked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bench.make("pod")
    (tree / "one").write_bytes(b"x")
    os.link(tree / "one", tree / "two")

    def change() -> None:
        (tree / "two").write_bytes(b"written through the other name")
        os.link(tree / "one", tree / "three")

    between_walk_and_read(monkeypatch, change)
    captured_and_restored(bench, monkeypatch)
    new = bench.tree("new")
    assert (new / "one").samefile(new / "two")
    assert (new / "one").read_bytes() == b"written through the other name"
    bench.capture("pod", "snap_2", parent="snap_1")
    bench.restore("new", "snap_2")
    assert bench.differences("pod", "new") == []


class _Interrupted:
    """A real scan of a directory, with something happening when it has begun."""

    def __init__(self, entries: "Iterator[os.DirEntry[str]]", action: Callable[[], None]) -> None:
        self._entries = entries
        self._action = action

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._entries.close()  # type: ignore[attr-defined]

    def __iter__(self) -> "Iterator[os.DirEntry[str]]":
        for number, entry in enumerate(self._entries):
            if not number:
                self._action()
            yield entry


def test_names_that_vanish_while_a_directory_is_listed_take_nothing_else_with_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bench.make("pod")
    for number in range(50):
        (tree / f"stays{number}").write_bytes(b"%d" % number)
    for name in ("gone", "gone-big"):
        (tree / name).write_bytes(b"x" * (3 << 20 if name.endswith("big") else 10))
    os.link(tree / "gone", tree / "other-name")
    (tree / "zdir").mkdir()
    (tree / "zdir/inside").write_bytes(b"x")
    inode = tree.stat().st_ino
    original = os.scandir

    def vanish() -> None:
        if (tree / "gone").exists():
            (tree / "gone").unlink()
            (tree / "gone-big").unlink()
            (tree / "zdir/inside").unlink()
            (tree / "zdir").rmdir()

    def scandir(where: int | str) -> object:
        is_ours = isinstance(where, int) and os.fstat(where).st_ino == inode
        return _Interrupted(original(where), vanish) if is_ours else original(where)

    on_scandir(monkeypatch, scandir)
    outcome = bench.capture("pod", "snap_1")
    monkeypatch.undo()
    assert outcome.summary.unreadable == []
    bench.make("new")
    bench.restore("new", "snap_1")
    left, right = (trees.snapshot_of_disk(bench.tree(name)) for name in ("pod", "new"))
    assert len(right) == 52
    assert {*left} == {*right}


def test_names_that_vanish_after_they_were_listed_are_no_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bench.make("pod")
    for name in ("gone", "gone-big", "stays"):
        (tree / name).write_bytes(b"x" * (3 << 20 if name.endswith("big") else 10))
    os.link(tree / "gone", tree / "other-name")
    (tree / "zdir").mkdir()
    (tree / "zdir/inside").write_bytes(b"x")
    original = os.scandir

    def scandir(fd: int) -> object:
        found = list(original(fd))
        for entry in found:
            entry.stat(follow_symlinks=False)
        if any(entry.name == "gone" for entry in found):
            (tree / "gone").unlink()
            (tree / "gone-big").unlink()
            (tree / "zdir/inside").unlink()
            (tree / "zdir").rmdir()
        return _Listed(found)

    on_scandir(monkeypatch, scandir)
    outcome = bench.capture("pod", "snap_1")
    monkeypatch.undo()
    assert outcome.summary.unreadable == []
    bench.make("new")
    bench.restore("new", "snap_1")
    found = trees.snapshot_of_disk(bench.tree("new"))
    assert sorted(found) == [b"", b"other-name", b"stays"]


class _Listed(list):  # type: ignore[type-arg]
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class _BadInode:
    """An entry of a directory of which the disk gives no more than the name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        raise OSError(errno.EIO, f"bad sector ({follow_symlinks})")


@pytest.mark.usefixtures("trusting")
def test_a_name_that_cannot_be_looked_at_is_reported_and_never_deleted_by_a_restore(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bench.make("pod")
    for name in ("dir/bad", "dir/good", "other/file"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_bytes(name.encode())
    os.setxattr(tree / "dir", "user.k", b"v")
    bench.capture("pod", "snap_1")
    bench.capture("pod", "snap_2", parent="snap_1")
    scandir, stat = os.scandir, os.stat

    def bad_scandir(where: int | str) -> object:
        entries = scandir(where)
        changed = [_BadInode(e.name) if e.name == "bad" else e for e in entries]
        return _Listed(changed)

    def bad_stat(path: Any, **more: Any) -> os.stat_result:
        if path == "bad":
            raise OSError(errno.EIO, "bad sector")
        return stat(path, **more)

    with monkeypatch.context() as patch:
        on_scandir(patch, bad_scandir)
        patch.setattr(os, "stat", bad_stat)
        outcome = bench.capture("pod", "snap_3", parent="snap_2")
    assert outcome.summary.unreadable == ["dir/bad: EIO"]
    restored = bench.restore("pod", "snap_3")
    assert restored.deleted == 0
    assert (tree / "dir/bad").read_bytes() == b"dir/bad"
    bench.capture("pod", "snap_4", parent="snap_3")
    bench.make("new")
    bench.restore("new", "snap_4")
    assert bench.differences("pod", "new") == []
