"""An unchanged tree costs nothing, a changed one only its changes."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from podferry_agent.snapshot.manifest import ManifestReader, load_root
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.scanning import scan
from tests.agent.snapshot.conftest import Bench, CountingStore, on_preadv


def fill(tree: Path, directories: int = 12, files: int = 250) -> None:
    for d in range(directories):
        (tree / f"dir{d:02}").mkdir(parents=True)
        for f in range(files):
            (tree / f"dir{d:02}" / f"file{f:04}").write_bytes(b"%d-%d" % (d, f) * 20)


def stored(bench: Bench) -> CountingStore:
    assert bench.last_store is not None
    return bench.last_store


@pytest.mark.usefixtures("trusting")
def test_an_unchanged_second_capture_uploads_only_the_root(bench: Bench) -> None:
    fill(bench.make("pod"))
    bench.capture("pod", "snap_1")
    outcome = bench.capture("pod", "snap_2", parent="snap_1")
    assert stored(bench).names == ["root"]
    assert (outcome.summary.new_bytes, outcome.summary.packs) == (0, 0)
    assert outcome.summary.entries == 12 * 251 + 1


def test_without_the_local_state_everything_is_hashed_and_nothing_is_uploaded(bench: Bench) -> None:
    fill(bench.make("pod"))
    bench.capture("pod", "snap_1")
    shutil.rmtree(bench.base / "state-pod")
    bench.capture("pod", "snap_2", parent="snap_1")
    assert stored(bench).names == ["root"]


@pytest.mark.usefixtures("trusting")
def test_three_touched_files_upload_a_few_pages_and_one_pack(bench: Bench) -> None:
    tree = bench.make("pod")
    fill(tree)
    bench.capture("pod", "snap_1")
    for name in ("dir00/file0000", "dir05/file0100", "dir05/file0101"):
        (tree / name).write_bytes(b"changed " + name.encode())
    bench.capture("pod", "snap_2", parent="snap_1")
    assert len(stored(bench).packs()) == 1
    assert 1 <= len(stored(bench).pages()) <= 2
    root = load_root(stored(bench), "snap_2")
    assert {page.snapshot_id for page in root.pages} == {"snap_1", "snap_2"}
    assert {pack.snapshot_id for pack in root.packs} == {"snap_1", "snap_2"}


def test_the_root_lists_every_pack_it_needs_also_over_three_generations(bench: Bench) -> None:
    tree = bench.make("pod")
    for number in (1, 2, 3):
        (tree / f"file{number}").write_bytes(os.urandom(5000))
        bench.capture("pod", f"snap_{number}", parent=f"snap_{number - 1}" if number > 1 else None)
    root = load_root(stored(bench), "snap_3")
    assert [pack.snapshot_id for pack in root.packs] == ["snap_1", "snap_2", "snap_3"]
    bench.make("new")
    bench.restore("new", "snap_3")
    assert bench.differences("pod", "new") == []


def test_a_pack_that_no_file_needs_any_more_is_not_listed(bench: Bench) -> None:
    tree = bench.make("pod")
    (tree / "a").write_bytes(os.urandom(5000))
    bench.capture("pod", "snap_1")
    (tree / "a").write_bytes(os.urandom(5000))
    bench.capture("pod", "snap_2", parent="snap_1")
    root = load_root(stored(bench), "snap_2")
    assert [pack.snapshot_id for pack in root.packs] == ["snap_2"]


def test_equal_files_are_stored_once(bench: Bench) -> None:
    tree = bench.make("pod")
    body = os.urandom(300_000)
    for number in range(20):
        (tree / f"copy{number}").write_bytes(body)
    assert bench.capture("pod", "snap_1").summary.new_bytes == 300_000


def test_an_insertion_in_a_big_file_stores_little(bench: Bench) -> None:
    tree = bench.make("pod")
    body = os.urandom(64 << 20)
    (tree / "data.tar").write_bytes(body)
    bench.capture("pod", "snap_1")
    (tree / "data.tar").write_bytes(body[:1000] + b"inserted" + body[1000:])
    outcome = bench.capture("pod", "snap_2", parent="snap_1")
    assert outcome.summary.new_bytes < 17 << 20
    bench.make("new")
    bench.restore("new", "snap_2")
    assert bench.differences("pod", "new") == []


@pytest.mark.usefixtures("trusting")
def test_a_file_with_a_young_ctime_is_read_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bench.make("pod")
    (tree / "young").write_bytes(b"x" * 100)
    reads: list[int] = []
    original = os.preadv

    def preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        reads.append(fd)
        return original(fd, buffers, offset)

    on_preadv(monkeypatch, preadv)
    monkeypatch.setattr("podferry_agent.snapshot.statestore.RACY_NS", 2_000_000_000)
    bench.capture("pod", "snap_1")
    reads.clear()
    bench.capture("pod", "snap_2", parent="snap_1")
    assert reads
    monkeypatch.setattr("podferry_agent.snapshot.statestore.RACY_NS", 0)
    bench.capture("pod", "snap_3", parent="snap_2")
    reads.clear()
    bench.capture("pod", "snap_4", parent="snap_3")
    assert not reads


@pytest.mark.usefixtures("trusting")
def test_a_change_that_keeps_size_and_mtime_is_found(bench: Bench) -> None:
    tree = bench.make("pod")
    (tree / "sly").write_bytes(b"before")
    os.utime(tree / "sly", ns=(1, 1))
    bench.capture("pod", "snap_1")
    (tree / "sly").write_bytes(b"after!")
    os.utime(tree / "sly", ns=(1, 1))
    bench.capture("pod", "snap_2", parent="snap_1")
    bench.make("new")
    bench.restore("new", "snap_2")
    assert (bench.tree("new") / "sly").read_bytes() == b"after!"


@pytest.mark.usefixtures("trusting")
def test_a_capture_after_one_that_was_given_up_goes_back_to_its_parent(bench: Bench) -> None:
    tree = bench.make("pod")
    fill(tree, 2, 20)
    bench.capture("pod", "snap_1")
    (tree / "new").write_bytes(os.urandom(1000))
    bench.capture("pod", "snap_2", parent="snap_1")
    shutil.rmtree(bench.store_directory / "snap_2")
    bench.capture("pod", "snap_3", parent="snap_1")
    assert len(stored(bench).packs()) == 1
    root = load_root(stored(bench), "snap_3")
    assert {pack.snapshot_id for pack in root.packs} == {"snap_1", "snap_3"}
    bench.make("other")
    bench.restore("other", "snap_3")
    assert bench.differences("pod", "other") == []


@pytest.mark.usefixtures("trusting")
def test_other_rules_make_a_capture_look_at_everything_again(bench: Bench) -> None:
    tree = bench.make("pod")
    fill(tree, 3, 10)
    bench.capture("pod", "snap_1", user_rules=("exclude /workspace/dir01/**",))
    bench.capture("pod", "snap_2", parent="snap_1")
    bench.make("new")
    bench.restore("new", "snap_2")
    assert bench.differences("pod", "new") == []


@pytest.mark.usefixtures("trusting")
def test_a_file_below_a_renamed_directory_stays_linked_to_an_unchanged_name(bench: Bench) -> None:
    tree = bench.make("pod")
    fill(tree, 3, 10)
    (tree / "moving").mkdir()
    os.link(tree / "dir02/file0003", tree / "moving/name")
    bench.capture("pod", "snap_1")
    bench.capture("pod", "snap_2", parent="snap_1")
    (tree / "moving").rename(tree / "moved")
    outcome = bench.capture("pod", "snap_3", parent="snap_2")
    assert outcome.summary.new_bytes == 0
    new = bench.make("new")
    bench.restore("new", "snap_3")
    assert (new / "moved/name").samefile(new / "dir02/file0003")
    assert bench.differences("pod", "new") == []


@pytest.mark.usefixtures("trusting")
def test_only_pages_with_changes_are_read_for_a_capture(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bench.make("pod")
    fill(tree, 40, 250)
    bench.capture("pod", "snap_1")
    pages = len(load_root(stored(bench), "snap_1").pages)
    (tree / "dir20/file0100").unlink()
    read: list[int] = []
    page = ManifestReader.page

    def noted(reader: ManifestReader, number: int) -> list[Entry]:
        read.append(number)
        return page(reader, number)

    monkeypatch.setattr(ManifestReader, "page", noted)
    outcome = bench.capture("pod", "snap_2", parent="snap_1")
    assert 1 <= len(read) <= 3 < pages
    assert outcome.summary.entries == 40 * 251
    assert outcome.summary.files == 40 * 250 - 1


@pytest.mark.usefixtures("trusting")
def test_a_directory_that_could_not_be_listed_once_is_whole_in_the_next_capture(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bench.make("pod")
    fill(tree, 3, 10)
    bench.capture("pod", "snap_1")
    inode = (tree / "dir01").stat().st_ino

    def failing(
        fd: int, failed: Callable[[bytes, OSError], None]
    ) -> tuple[bytes, list[os.stat_result]]:
        if os.fstat(fd).st_ino == inode:
            raise OSError(errno.EIO, "bad sector")
        return scan(fd, failed)

    with monkeypatch.context() as patch:
        patch.setattr("podferry_agent.snapshot.walk.scan", failing)
        outcome = bench.capture("pod", "snap_2", parent="snap_1")
    assert outcome.summary.unreadable == ["dir01: EIO"]
    assert outcome.summary.files == 20
    outcome = bench.capture("pod", "snap_3", parent="snap_2")
    assert (outcome.summary.files, outcome.summary.unreadable) == (30, [])
    bench.make("new")
    bench.restore("new", "snap_3")
    assert bench.differences("pod", "new") == []
