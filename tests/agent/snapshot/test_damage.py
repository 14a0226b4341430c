"""Missing and damaged objects: a typed error that names them, and an untouched tree."""

import hashlib
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from podferry_agent.snapshot import (
    DamageError,
    SnapshotCorruptError,
    SnapshotMissingError,
    UnsupportedFormatError,
)
from podferry_agent.snapshot.chunks import ChunkTable, Pack
from podferry_agent.snapshot.directorystore import DirectoryStore
from podferry_agent.snapshot.manifest import ManifestReader, load_root
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.packs import load_footer
from podferry_agent.snapshot.pages import encode_page
from podferry_agent.snapshot.statestore import PageCache
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench


@pytest.fixture
def captured(bench: Bench) -> Bench:
    tree = bench.make("pod")
    for number in range(5):
        (tree / f"file{number}").write_bytes(os.urandom(400_000))
    (tree / "other").mkdir()
    (tree / "other/big").write_bytes(os.urandom(20 << 20))  # two packs in any order of blocks
    bench.capture("pod", "snap_1")
    live = bench.make("live")
    (live / "old").write_bytes(b"the old content")
    return bench


def objects(bench: Bench, kind: str) -> list[Path]:
    return sorted((bench.store_directory / "snap_1" / kind).iterdir())


def refused(bench: Bench, error: type[DamageError]) -> DamageError:
    """The restore fails in that way, and nothing of the live tree has changed."""
    before = trees.snapshot_of_disk(bench.tree("live"))
    with pytest.raises(error) as caught:
        bench.restore("live", "snap_1")
    after = trees.snapshot_of_disk(bench.tree("live"))
    for facts in (before, after):
        for path in [p for p in facts if not p or p.startswith(b".~pfr-")]:
            facts.pop(path)
    assert trees.differing(before, after) == []
    return caught.value


def flip(path: Path, at: int) -> None:
    body = bytearray(path.read_bytes())
    body[at] ^= 0x10
    path.write_bytes(body)


def test_promise_07_a_missing_snapshot_is_an_error_and_not_an_empty_tree(captured: Bench) -> None:
    (captured.store_directory / "snap_1/root").unlink()
    error = refused(captured, SnapshotMissingError)
    assert error.code == "snapshot_missing"
    assert error.object_name == "snap_1/root"


def test_case_s1_a_missing_pack_names_itself_and_the_files_in_it(captured: Bench) -> None:
    packs = objects(captured, "packs")
    assert len(packs) >= 2
    for pack in packs:
        body = pack.read_bytes()
        pack.unlink()
        error = refused(captured, SnapshotMissingError)
        assert error.object_name == f"packs/{pack.name}"
        assert error.files
        assert set(error.files) <= {*(f"file{n}" for n in range(5)), "other/big"}
        pack.write_bytes(body)
        trees.remove(captured.tree("live") / ".~pfr-stage")


@pytest.mark.parametrize("position", [0, 5000, 1_000_000])
def test_a_flipped_bit_in_a_pack_is_found_and_names_the_files(
    captured: Bench, position: int
) -> None:
    pack = objects(captured, "packs")[0]
    flip(pack, position)
    error = refused(captured, SnapshotCorruptError)
    assert error.code == "snapshot_corrupt"
    assert error.object_name == f"packs/{pack.name}"
    assert error.files


def test_a_short_pack_is_found(captured: Bench) -> None:
    pack = objects(captured, "packs")[0]
    pack.write_bytes(pack.read_bytes()[:1000])
    assert refused(captured, SnapshotCorruptError).object_name == f"packs/{pack.name}"


def test_a_missing_page_names_itself_and_its_range_of_files(captured: Bench) -> None:
    page = objects(captured, "pages")[0]
    page.unlink()
    error = refused(captured, SnapshotMissingError)
    assert error.object_name == f"pages/{page.name}"
    assert error.files == ["from / to before the end"]


@pytest.mark.parametrize("position", [0, 20, -1])
def test_a_flipped_bit_in_a_page_is_found(captured: Bench, position: int) -> None:
    flip(objects(captured, "pages")[0], position)
    assert refused(captured, SnapshotCorruptError).code == "snapshot_corrupt"


def test_a_flipped_bit_anywhere_in_the_root_is_found(captured: Bench) -> None:
    root = captured.store_directory / "snap_1/root"
    body = root.read_bytes()
    for position in range(0, len(body), 7):
        flip(root, position)
        with pytest.raises((SnapshotCorruptError, UnsupportedFormatError, SnapshotMissingError)):
            captured.restore("live", "snap_1")
        root.write_bytes(body)


@pytest.mark.parametrize("kept", [0, 1, 15, 16, 17, 100, -1], ids=str)
def test_a_page_that_was_cut_short_is_found(captured: Bench, kept: int) -> None:
    page = objects(captured, "pages")[0]
    page.write_bytes(page.read_bytes()[:kept])
    error = refused(captured, SnapshotCorruptError)
    assert error.object_name == f"pages/{page.name}"
    assert error.files == ["from / to before the end"]


@pytest.mark.parametrize("kept", [0, 1, 100, -1], ids=str)
def test_a_root_that_was_cut_short_is_found(captured: Bench, kept: int) -> None:
    root = captured.store_directory / "snap_1/root"
    root.write_bytes(root.read_bytes()[:kept])
    assert refused(captured, SnapshotCorruptError).object_name == "snap_1/root"


@pytest.mark.parametrize("kept", [0, 1, -1], ids=str)
def test_a_pack_that_is_empty_or_lacks_its_end_is_found_or_harmless(
    captured: Bench, kept: int
) -> None:
    """The last byte is of the footer, which a restore does not need."""
    for pack in objects(captured, "packs"):
        body = pack.read_bytes()
        pack.write_bytes(body[:kept])
        if kept >= 0:
            error = refused(captured, SnapshotCorruptError)
            assert error.object_name == f"packs/{pack.name}"
            assert error.files
            trees.remove(captured.tree("live") / ".~pfr-stage")
            pack.write_bytes(body)
    if kept < 0:
        captured.restore("live", "snap_1")
        assert captured.differences("pod", "live") == []


def test_a_flipped_bit_in_a_footer_spoils_no_restore_and_is_found_by_who_reads_it(
    captured: Bench,
) -> None:
    for path in objects(captured, "packs"):
        for back in (1, 12, 14, 22, 30):
            body = path.read_bytes()
            flip(path, len(body) - back)
            with pytest.raises((SnapshotCorruptError, UnsupportedFormatError)):
                load_footer(Pack("snap_1", path.name), path.read_bytes(), ChunkTable())
            path.write_bytes(body)
        flip(path, len(body) - 30)
    captured.restore("live", "snap_1")
    assert captured.differences("pod", "live") == []


def test_every_damaged_pack_names_only_files_that_are_in_it(captured: Bench) -> None:
    """One file per pack at the most is cut in two, so both packs may name it."""
    hit: list[set[str]] = []
    for pack in objects(captured, "packs"):
        body = pack.read_bytes()
        pack.write_bytes(bytes(len(body)))
        hit.append(set(refused(captured, SnapshotCorruptError).files))
        pack.write_bytes(body)
        trees.remove(captured.tree("live") / ".~pfr-stage")
    assert all(hit)


def test_a_page_of_another_snapshot_under_the_right_name_is_refused(captured: Bench) -> None:
    (captured.tree("pod") / "file0").write_bytes(b"another content")
    captured.capture("pod", "snap_2")
    other = next((captured.store_directory / "snap_2/pages").iterdir())
    objects(captured, "pages")[0].write_bytes(other.read_bytes())
    assert refused(captured, SnapshotCorruptError).object_name.startswith("pages/")


def test_a_pack_of_another_snapshot_under_the_right_name_is_refused(captured: Bench) -> None:
    names = {path.name for path in objects(captured, "packs")}
    for number in range(5):
        (captured.tree("pod") / f"file{number}").write_bytes(os.urandom(400_000))
    captured.capture("pod", "snap_2")
    packs = sorted((captured.store_directory / "snap_2/packs").iterdir())
    other = next(path for path in packs if path.name not in names)
    for pack in objects(captured, "packs"):
        if pack.name != other.name:
            pack.write_bytes(other.read_bytes())
    assert refused(captured, SnapshotCorruptError).files


def test_a_whole_snapshot_of_another_account_is_refused(captured: Bench) -> None:
    """Every hash in it is right, but its chunks are named with that account's key."""
    captured.capture(
        "pod",
        "snap_1",
        chunk_key=b"k" * 32,
        store=DirectoryStore(captured.base / "elsewhere", "snap_1"),
        state_dir=os.fsencode(captured.base / "other-state"),
    )
    shutil.rmtree(captured.store_directory)
    (captured.base / "elsewhere").rename(captured.store_directory)
    assert refused(captured, SnapshotCorruptError).files


def test_a_page_that_leads_through_a_symlink_out_of_the_tree_writes_nothing_there(
    captured: Bench,
) -> None:
    """No capture makes such a page; one that was forged must not reach other directories."""
    outside = captured.base / "outside"
    outside.mkdir()
    store = DirectoryStore(captured.store_directory, "snap_1")
    root = load_root(store, "snap_1")
    reader = ManifestReader(store, root, PageCache(captured.base / "no-cache"))
    entries = list(reader.entries())
    link = Entry(b"a", stat.S_IFLNK | 0o777, target=os.fsencode(outside))
    below = Entry(b"a/planted", stat.S_IFIFO | 0o644)
    body = encode_page([entries[0], link, below, *entries[1:]], reader.table)
    sha256 = hashlib.sha256(body).hexdigest()
    store.put(f"pages/{sha256}", body, sha256)
    page = replace(root.pages[0], name=f"pages/{sha256}", sha256=sha256, entries=len(entries) + 2)
    counts = {**root.counts, "entries": len(entries) + 2}
    forged = replace(root, pages=[page], counts=counts)
    (captured.store_directory / "snap_1/root").write_bytes(forged.encode())
    with pytest.raises((SnapshotCorruptError, OSError)):
        captured.restore("live", "snap_1")
    assert list(outside.iterdir()) == []


def test_a_root_that_is_not_the_committed_one_is_refused(captured: Bench) -> None:
    with pytest.raises(SnapshotCorruptError, match="not the one that was committed"):
        captured.restore("live", "snap_1", root_sha256="0" * 64)


def test_a_root_of_another_snapshot_is_refused(captured: Bench) -> None:
    captured.capture("pod", "snap_2")
    body = (captured.store_directory / "snap_2/root").read_bytes()
    (captured.store_directory / "snap_1/root").write_bytes(body)
    assert "snap_2" in str(refused(captured, SnapshotCorruptError))


def test_an_environment_is_not_restored_as_a_volume(captured: Bench) -> None:
    other = Bench(captured.base, kind="environment")
    with pytest.raises(SnapshotCorruptError, match="kind volume"):
        other.restore("live", "snap_1")


def test_a_wrong_key_is_not_taken_for_right_content(captured: Bench) -> None:
    with pytest.raises(SnapshotCorruptError):
        captured.restore("live", "snap_1", chunk_key=b"k" * 32)


def test_damage_on_the_way_is_mended_by_a_second_try(captured: Bench) -> None:
    class Flaky(DirectoryStore):
        failures = 0

        def get(
            self, snapshot_id: str, name: str, start: int = 0, length: int | None = None
        ) -> bytes:
            body = super().get(snapshot_id, name, start, length)
            if name.startswith("packs/") and not self.failures:
                self.failures += 1
                return body[:-1] + bytes([body[-1] ^ 1])
            return body

    store = Flaky(captured.store_directory)
    captured.restore("live", "snap_1", store=store)
    assert store.failures == 1
    assert captured.differences("pod", "live") == []


def test_a_failed_upload_fails_the_capture_and_leaves_no_root(bench: Bench) -> None:
    class Full(DirectoryStore):
        def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
            if name.startswith("packs/"):
                raise OSError(28, "the store is full")
            super().put(name, body, sha256)

    tree = bench.make("pod")
    for number in range(40):
        (tree / f"file{number}").write_bytes(os.urandom(1 << 20))
    with pytest.raises(OSError, match="the store is full"):
        bench.capture("pod", "snap_1", store=Full(bench.store_directory, "snap_1"))
    assert not (bench.store_directory / "snap_1/root").exists()


def test_a_format_of_the_future_is_refused_with_a_way_out(captured: Bench) -> None:
    root = captured.store_directory / "snap_1/root"
    root.write_bytes(root.read_bytes().replace(b'"format":1', b'"format":2'))
    with pytest.raises(UnsupportedFormatError, match="use a newer one"):
        captured.restore("live", "snap_1")
