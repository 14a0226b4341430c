"""Best-effort restores of damaged snapshots: all that is whole, nothing that is not, and a list."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from podferry_agent.snapshot import Damaged, RestoreOutcome, pages
from podferry_agent.snapshot.directorystore import DirectoryStore
from podferry_agent.snapshot.manifest import load_root
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench


def objects(bench: Bench, kind: str) -> list[Path]:
    return sorted((bench.store_directory / "snap_1" / kind).iterdir())


def flip(path: Path, at: int) -> None:
    body = bytearray(path.read_bytes())
    body[at] ^= 0x10
    path.write_bytes(body)


def effort(bench: Bench, machine: str = "live") -> RestoreOutcome:
    bench.make(machine)
    return bench.restore(machine, "snap_1", best_effort=True)


def whole_and_damaged(bench: Bench, outcome: RestoreOutcome, machine: str = "live") -> set[str]:
    """Paths of the damaged files, after making sure that all others are right."""
    damaged = {each.path for each in outcome.damaged}
    source, target = bench.tree("pod"), bench.tree(machine)
    for path in source.rglob("*"):
        name = path.relative_to(source).as_posix()
        if path.is_file() and name not in damaged:
            assert (target / name).read_bytes() == path.read_bytes(), name
    return damaged


@pytest.fixture
def captured(bench: Bench) -> Bench:
    """Several packs, each with small files in blocks of their own."""
    tree = bench.make("pod")
    for number in range(30):
        path = tree / f"d{number % 3}/file{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(900_000))
    (tree / "d0/big").write_bytes(os.urandom(9 << 20))
    (tree / "d1/twin").write_bytes((tree / "d0/file0").read_bytes())
    os.link(tree / "d0/file3", tree / "d2/hard")
    bench.capture("pod", "snap_1")
    return bench


def test_a_whole_snapshot_is_restored_as_ever(captured: Bench) -> None:
    outcome = effort(captured)
    assert outcome.status == "complete"
    assert outcome.damaged == []
    assert captured.differences("pod", "live") == []


def test_a_flipped_bit_costs_only_the_files_of_its_block(captured: Bench) -> None:
    pack = objects(captured, "packs")[0]
    flip(pack, 100)
    outcome = effort(captured)
    damaged = whole_and_damaged(captured, outcome)
    assert 1 <= len(damaged) <= 4
    assert {each.object_name for each in outcome.damaged} == {f"packs/{pack.name}"}
    assert outcome.status == f"damaged: {len(damaged)} files"
    assert outcome.files == 33 - len(damaged)
    for name in damaged:
        assert not (captured.tree("live") / name).exists()
    assert not list(captured.tree("live").glob(".~pfr-*"))


def test_a_missing_pack_costs_only_the_files_in_it(captured: Bench) -> None:
    packs = objects(captured, "packs")
    assert len(packs) > 2
    packs[1].unlink()
    outcome = effort(captured)
    damaged = whole_and_damaged(captured, outcome)
    assert 1 <= len(damaged) < 20
    assert {each.object_name for each in outcome.damaged} == {f"packs/{packs[1].name}"}


def test_every_pack_may_be_missing(captured: Bench) -> None:
    for pack in objects(captured, "packs"):
        pack.unlink()
    outcome = effort(captured)
    assert len(outcome.damaged) == 33
    found = sorted(p.name for p in captured.tree("live").rglob("*"))
    assert found == ["d0", "d1", "d2"]


def test_an_older_file_stays_untouched_where_the_new_one_is_lost(captured: Bench) -> None:
    for pack in objects(captured, "packs"):
        pack.unlink()
    live = captured.make("live")
    (live / "d0").mkdir()
    (live / "d0/file0").write_bytes(b"an older state")
    (live / "d0/big").mkdir()
    (live / "d0/big/inside").write_bytes(b"another kind of thing")
    (live / "d0/extra").write_bytes(b"not in the snapshot")
    before = (live / "d0/file0").stat()
    effort(captured)
    after = (live / "d0/file0").stat()
    assert (live / "d0/file0").read_bytes() == b"an older state"
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert (live / "d0/big/inside").exists()
    assert not (live / "d0/extra").exists()


def test_all_names_of_a_lost_inode_are_named(captured: Bench) -> None:
    for pack in objects(captured, "packs"):
        pack.unlink()
    damaged = {each.path for each in effort(captured).damaged}
    assert {"d0/file3", "d2/hard", "d0/file0", "d1/twin"} <= damaged


def test_what_is_right_on_the_machine_needs_no_pack(captured: Bench) -> None:
    captured.make("live")
    captured.restore("live", "snap_1")
    for pack in objects(captured, "packs"):
        pack.unlink()
    outcome = effort(captured)
    assert outcome.damaged == []
    assert captured.differences("pod", "live") == []


def test_damage_on_the_way_is_no_damage(captured: Bench) -> None:
    class Flaky(DirectoryStore):
        hit: ClassVar[set[str]] = set()

        def get(
            self, snapshot_id: str, name: str, start: int = 0, length: int | None = None
        ) -> bytes:
            body = super().get(snapshot_id, name, start, length)
            if name == "root" or name in self.hit:
                return body
            self.hit.add(name)
            return body[:-9] + bytes([body[-9] ^ 1]) + body[-8:]

    captured.make("live")
    store = Flaky(captured.store_directory)
    outcome = captured.restore("live", "snap_1", store=store, best_effort=True)
    assert any(name.startswith("pages/") for name in store.hit)
    assert any(name.startswith("packs/") for name in store.hit)
    assert outcome.damaged == []
    assert captured.differences("pod", "live") == []


@pytest.fixture
def small_pages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A page for every few names."""
    monkeypatch.setattr(pages, "_MIN_ENTRIES", 2)
    monkeypatch.setattr(pages, "_CUT_MASK", 3)
    tree = bench.make("pod")
    for number in range(60):
        path = tree / f"d{number % 6}/s{number % 2}/file{number:02}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    bench.capture("pod", "snap_1")
    return bench


def test_a_missing_page_costs_only_its_range_of_names_and_deletes_nothing_there(
    small_pages: Bench,
) -> None:
    bench = small_pages
    root = load_root(DirectoryStore(bench.store_directory), "snap_1")
    assert len(root.pages) > 6
    for number in range(len(root.pages)):
        page = root.pages[number]
        path = bench.store_directory / "snap_1" / page.name
        body = path.read_bytes()
        path.unlink()
        machine = f"live{number}"
        live = bench.make(machine)
        for directory in ("d0/s0", "d2/s0", "d5/s1"):
            (live / directory).mkdir(parents=True)
            (live / directory / "extra").write_bytes(b"not in the snapshot")
        for old in range(60):
            name = live / f"d{old % 6}/s{old % 2}/file{old:02}"
            name.parent.mkdir(parents=True, exist_ok=True)
            name.write_bytes(b"old")
        outcome = effort(bench, machine)
        upto = root.pages[number + 1].first if number + 1 < len(root.pages) else "the end"
        where = f"from {page.first or '/'} to before {upto}"
        assert outcome.damaged == [Damaged(where, page.name, page.files)]
        assert outcome.status == f"damaged: {page.files} files"
        files = [p for p in live.rglob("file*") if p.is_file()]
        assert len(files) == 60
        assert sum(p.read_bytes() == b"old" for p in files) == page.files
        extras = [p for p in live.rglob("extra") if p.exists()]
        assert len(extras) <= 1
        path.write_bytes(body)


def test_without_any_page_nothing_is_touched(small_pages: Bench) -> None:
    for page in objects(small_pages, "pages"):
        page.unlink()
    live = small_pages.make("live")
    (live / "mine").write_bytes(b"x")
    outcome = effort(small_pages)
    assert outcome.status == "damaged: 60 files"
    assert [p.name for p in live.iterdir()] == ["mine"]


def test_names_of_a_lost_directory_are_restored_into_a_new_one(small_pages: Bench) -> None:
    bench = small_pages
    root = load_root(DirectoryStore(bench.store_directory), "snap_1")
    firsts = [page.first for page in root.pages]
    number = next(i for i, first in enumerate(firsts) if first.count("/") == 2 and i)
    for page in root.pages[:number]:
        (bench.store_directory / "snap_1" / page.name).unlink()
    outcome = effort(bench)
    assert whole_names(bench, "live") == sum(page.files for page in root.pages[number:])
    assert len(outcome.damaged) == number


def whole_names(bench: Bench, machine: str) -> int:
    source, target = bench.tree("pod"), bench.tree(machine)
    found = [path for path in target.rglob("file*") if path.is_file()]
    return sum(
        path.read_bytes() == (source / path.relative_to(target)).read_bytes() for path in found
    )


def test_a_second_best_effort_is_whole_once_the_object_is_back(captured: Bench) -> None:
    pack = objects(captured, "packs")[0]
    body = pack.read_bytes()
    pack.unlink()
    assert effort(captured).damaged
    pack.write_bytes(body)
    assert effort(captured).damaged == []
    assert captured.differences("pod", "live") == []


def test_the_command_line_says_damaged_and_fails(captured: Bench) -> None:
    flip(objects(captured, "packs")[0], 100)
    captured.make("live")
    command = [sys.executable, "-m", "podferry_agent.snapshot", "restore", "--kind", "volume"]
    places = ["--root", captured.root("live"), "--state", captured.base / "state-live"]
    end = ["--key", trees.KEY.hex(), captured.store_directory, "snap_1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(*options: str) -> "subprocess.CompletedProcess[str]":
        arguments = [str(part) for part in (*command, *options, *places, *end)]
        return subprocess.run(
            arguments, env=environment, capture_output=True, text=True, check=False
        )

    strict = run()
    assert strict.returncode == 1
    assert "snapshot_corrupt: packs/" in strict.stderr
    assert not list(captured.tree("live").glob("d*"))
    done = run("--best-effort")
    assert done.returncode == 1
    shown = json.loads(done.stdout)
    assert shown["status"] == f"damaged: {len(shown['damaged'])} files"
    assert shown["damaged"][0]["object_name"].startswith("packs/")
