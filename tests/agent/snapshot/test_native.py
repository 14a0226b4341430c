"""The compiled helper does what the loops in Python do, byte for byte, and nothing else."""

import errno
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest
from hypothesis import HealthCheck, given, settings

from podferry_agent.snapshot import capturerun, native, scanning, statestore
from podferry_agent.snapshot.directorystore import DirectoryStore
from podferry_agent.snapshot.listings import row_of
from podferry_agent.snapshot.manifest import ManifestReader, load_root
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.native import Helper, NewFile, NotMadeError, helper
from podferry_agent.snapshot.stage import NEW_FILE
from podferry_agent.snapshot.statestore import PageCache
from tests.agent.snapshot import trees
from tests.agent.snapshot.changes import CHANGES, Change, apply
from tests.agent.snapshot.conftest import Bench


@pytest.fixture
def compiled() -> Helper:
    found = helper()
    assert found is not None
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def in_python(patch: pytest.MonkeyPatch) -> None:
    for module in ("plain", "plan", "scanning", "writing"):
        patch.setattr(f"podferry_agent.snapshot.{module}.helper", lambda: None)


def objects(base: Path) -> list[str]:
    return sorted(str(path.relative_to(base)) for path in (base / "store").rglob("?" * 64))


def entries(bench: Bench, snapshot_id: str) -> list[tuple[object, ...]]:
    """All that a manifest says, with the identities of chunks instead of their numbers."""
    store = DirectoryStore(bench.store_directory)
    cache = PageCache(bench.base / "no-cache")
    reader = ManifestReader(store, load_root(store, snapshot_id), cache)
    found = list(reader.entries())
    ids = reader.table.ids
    fields = [name for name in Entry.__slots__ if name not in ("refs", "large_xattrs")]
    return [
        (*(getattr(e, f) for f in fields), e.refs[::2], [ids[chunk] for chunk in e.chunks])
        for e in found
    ]


def captured(tree: Path, base: Path, name: str) -> Bench:
    """Two captures of a machine's volume: the second one with a directory that changed."""
    bench = Bench(base / name)
    bench.base.mkdir()
    bench.root("pod").symlink_to(tree)
    added = tree / "workspace/afterwards"
    os.utime(tree / "workspace", ns=(7, 7))
    bench.capture("pod", "snap_1")
    added.write_bytes(b"new")
    os.utime(added, ns=(1, 1))
    os.utime(tree / "workspace", ns=(8, 8))
    bench.capture("pod", "snap_2", parent="snap_1")
    added.unlink()
    return bench


def captured_both_ways(tree: Path, base: Path) -> tuple[Bench, Bench]:
    """With the helper, and without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statestore, "RACY_NS", 0)
        # With one reader the order of small files does not depend on who was quicker.
        patch.setattr(capturerun, "_READERS", 1)
        compiled = captured(tree, base, "compiled")
        in_python(patch)
        return compiled, captured(tree, base, "python")


def test_a_tree_of_all_kinds_gives_the_same_manifest_with_and_without_the_helper(
    tmp_path: Path,
) -> None:
    tree = tmp_path / "machine"
    tree.mkdir()
    trees.make_torture(tree / "workspace")
    try:
        left, right = captured_both_ways(tree, tmp_path)
        for snapshot_id in ("snap_1", "snap_2"):
            assert entries(left, snapshot_id) == entries(right, snapshot_id)
    finally:
        trees.remove(tree)


@given(changes=CHANGES, more=CHANGES)
@settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@pytest.mark.timeout(200)
def test_random_trees_give_the_same_manifest_with_and_without_the_helper(
    changes: list[Change], more: list[Change]
) -> None:
    base = Path(tempfile.mkdtemp(prefix="pf-native-"))
    tree = base / "machine"
    try:
        (tree / "workspace").mkdir(parents=True)
        apply([*changes, *more], tree / "workspace")
        left, right = captured_both_ways(tree, base)
        for snapshot_id in ("snap_1", "snap_2"):
            assert entries(left, snapshot_id) == entries(right, snapshot_id)
    finally:
        trees.remove(base)


def test_small_files_give_the_same_objects_with_and_without_the_helper(tmp_path: Path) -> None:
    tree = tmp_path / "machine"
    for number in range(300):
        path = tree / f"workspace/{number % 7}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % (number % 250) * (1 + 97 * number % 4000))
        if number % 11 == 0:
            os.setxattr(path, "user.number", b"%d" % number)
    left, right = captured_both_ways(tree, tmp_path)
    assert objects(left.base) == objects(right.base)
    assert len(objects(left.base)) == 4  # a pack and a page of each


def test_a_directory_shows_the_same_names_and_facts(compiled: Helper, tmp_path: Path) -> None:
    for number in range(5000):
        (tmp_path / f"{number:0{1 + number % 200}}").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "inner").mkdir(mode=0o1751)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / os.fsdecode(b"not utf-8 \xff\n")).write_bytes(b"x" * 5000)
    os.utime(tmp_path / "fifo", ns=(-1, -1_500_000_001))
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(2):  # a look leaves the position where it was
            fast = scanning.scan(fd, ANY)
            slow = scanning._slow_scan(fd, ANY)
            assert (fast.names, fast.rows) == (slow.names, slow.rows)
        for quick, status in zip(fast.statuses, slow.statuses, strict=True):
            fields = scanning.Status._fields
            assert [getattr(quick, f) for f in fields] == [getattr(status, f) for f in fields]
    finally:
        os.close(fd)
    assert compiled.scan(fd) is None  # closed: the loop in Python says what is wrong


def test_an_empty_directory_shows_nothing(tmp_path: Path, directory: int) -> None:
    assert (scanning.scan(directory, ANY).names, list(scanning.scan(directory, ANY).named())) == (
        b"",
        [],
    )


def read(
    compiled: Helper, directory: int, files: list[tuple[bytes, bytes]], room: int = 1 << 16
) -> list[bytes]:
    buffer, at, contents = memoryview(bytearray(room)), 0, []
    for facts in compiled.read_plain(directory, files, buffer, exact_holes=True):
        contents.append(bytes(buffer[at : at + facts[4]]))
        at += facts[4]
    return contents


def rows(tmp_path: Path, *names: str) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), row_of((tmp_path / name).lstat())) for name in names]


def test_plain_files_are_read_until_one_is_not(
    compiled: Helper, tmp_path: Path, directory: int
) -> None:
    for name, size in (("a", 10), ("b", 0), ("c", 5000), ("e", 3)):
        (tmp_path / name).write_bytes(name.encode() * size)
    (tmp_path / "d").symlink_to("a")
    found = read(compiled, directory, rows(tmp_path, "a", "b", "c", "d", "e"))
    assert found == [b"a" * 10, b"", b"c" * 5000]


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_holes(path: Path) -> None:
    path.unlink()
    path.touch()
    os.truncate(path, 4)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b"longer"),
        lambda path: path.write_bytes(b"cut"),
        lambda path: path.chmod(0o600),
        lambda path: os.utime(path, ns=(1, 1)),
        lambda path: path.unlink(),
        lambda path: path.with_name("other").replace(path),
        make_fifo,
    ],
)
def test_a_file_that_moved_since_it_was_looked_at_is_not_plain(
    compiled: Helper, tmp_path: Path, directory: int, change: object
) -> None:
    (tmp_path / "other").write_bytes(b"same")
    (tmp_path / "file").write_bytes(b"same")
    before = rows(tmp_path, "file")
    assert read(compiled, directory, before) == [b"same"]
    assert callable(change)
    change(tmp_path / "file")
    assert read(compiled, directory, before) == []


def test_a_file_with_attributes_or_holes_or_no_room_is_not_plain(
    compiled: Helper, tmp_path: Path, directory: int
) -> None:
    (tmp_path / "file").write_bytes(b"same")
    assert read(compiled, directory, rows(tmp_path, "file"), room=4) == []
    os.setxattr(tmp_path / "file", "user.some", b"value")
    assert read(compiled, directory, rows(tmp_path, "file")) == []
    make_holes(tmp_path / "file")
    assert read(compiled, directory, rows(tmp_path, "file")) == []


def test_without_the_helper_the_engine_works_and_says_so_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "LIBRARY", bench.base / "no-helper.so")
    helper.cache_clear()
    try:
        (bench.make("pod") / "file").write_bytes(b"content")
        with caplog.at_level(logging.WARNING):
            bench.capture("pod", "snap_1")
            bench.make("new")
            bench.restore("new", "snap_1")
        assert [r.getMessage() for r in caplog.records if "compiled helper" in r.getMessage()] == [
            ANY
        ]
        assert bench.differences("pod", "new") == []
    finally:
        monkeypatch.undo()
        helper.cache_clear()


def test_a_helper_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_VERSION", 0)
    helper.cache_clear()
    try:
        assert helper() is None
    finally:
        monkeypatch.undo()
        helper.cache_clear()
    assert helper() is not None


def test_what_is_no_directory_is_left_to_the_loop_in_python(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        with pytest.raises(OSError) as caught:
            scanning.scan(fd, ANY)
        assert caught.value.errno == errno.ENOTDIR
    finally:
        os.close(fd)


def new(name: bytes, offset: int, length: int, mtime_ns: int = 5, mode: int = 0o640) -> NewFile:
    return NewFile(name, offset, length, mtime_ns, mode)


def test_files_are_made_with_content_rights_and_times_from_before_1970(
    compiled: Helper, tmp_path: Path, directory: int
) -> None:
    files = [new(b"a", 0, 3), new(b"b", 3, 0, -1), new(b"c", 1, 4, -1_500_000_001, 0o400)]
    for data in (b"abcdef", memoryview(b"..abcdef")[2:]):
        assert compiled.write_plain(directory, files, NEW_FILE, data) == 3
        contents = [(tmp_path / name).read_bytes() for name in "abc"]
        statuses = [(tmp_path / name).stat() for name in "abc"]
        assert contents == [b"abc", b"", b"bcde"]
        assert [s.st_mtime_ns for s in statuses] == [5, -1, -1_500_000_001]
        assert [stat.S_IMODE(s.st_mode) for s in statuses] == [0o640, 0o640, 0o400]
        for name in "abc":
            (tmp_path / name).unlink()


def test_a_file_that_cannot_be_made_is_named_with_how_many_were_made_before(
    compiled: Helper, tmp_path: Path, directory: int
) -> None:
    (tmp_path / "b").write_bytes(b"is there")
    with pytest.raises(NotMadeError) as caught:
        compiled.write_plain(directory, [new(b"a", 0, 1), new(b"b", 0, 1)], NEW_FILE, b"x")
    assert (caught.value.errno, caught.value.filename, caught.value.made) == (
        errno.EEXIST,
        b"b",
        1,
    )
    assert (tmp_path / "b").read_bytes() == b"is there"


def test_a_restore_gives_the_same_tree_with_and_without_the_helper(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.make_torture(bench.tree("pod"))
    bench.capture("pod", "snap_1")
    for machine in ("new", "other"):
        bench.make(machine)
        bench.restore(machine, "snap_1")
        assert bench.differences("pod", machine) == []
        (bench.tree(machine) / "extra").write_bytes(b"extra")
        assert bench.restore(machine, "snap_1").deleted == 1
        assert bench.differences("pod", machine) == []
        in_python(monkeypatch)
