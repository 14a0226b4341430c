"""SQLite databases of a live volume: a consistent copy each, and nothing written beside them."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from podferry_agent.snapshot import databases
from podferry_agent.snapshot.model import KEPT, TORN
from tests.agent.snapshot import writers
from tests.agent.snapshot.conftest import Bench
from tests.agent.snapshot.test_capture_cases import on_read
from tests.agent.snapshot.test_live_files import live, restored
from tests.agent.snapshot.test_live_volumes import entries_of

MODES = pytest.mark.parametrize("mode", ["wal", "delete"])


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None)


@contextmanager
def used(path: Path, mode: str = "wal", locking: str = "normal") -> Iterator[int]:
    """A database with two rows, and the pid of a program that has it open."""
    with closing(connect(path)) as connection:
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("create table t (a)")
        connection.execute("insert into t values ('first'), ('second')")
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        f"c.execute('pragma locking_mode={locking}');"
        "c.execute('insert into t values (?)', ('third',));"
        "sys.stdout.write('begun\\n'); sys.stdout.flush(); sys.stdin.read()"
    )
    with writers.running_python(program, path) as pid:
        yield pid


def rows(path: Path) -> list[str]:
    with closing(connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in connection.execute("select a from t")]


def insert(path: Path, value: str) -> None:
    with closing(connect(path)) as connection:
        connection.execute("insert into t values (?)", (value,))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@MODES
def test_case_s17_a_database_in_use_is_stored_as_a_copy_without_its_wal(
    bench: Bench, mode: str
) -> None:
    path = bench.make("pod") / "a b%20é.db"
    with used(path, mode):
        before = names(path.parent)
        assert live(bench, "snap_1", pauses=False).summary.torn == []
        assert names(path.parent) == before
    tree = restored(bench, "snap_1")
    assert names(tree) == [path.name]
    assert rows(tree / path.name) == ["first", "second", "third"]
    with closing(connect(tree / path.name)) as connection:
        assert connection.execute("pragma journal_mode").fetchall() == [(mode,)]


@MODES
def test_a_database_that_is_written_while_its_files_are_read_is_consistent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    path = bench.make("pod") / "x.db"
    with used(path, mode), closing(connect(path)) as connection:
        connection.execute("create table big (a)")
        connection.executemany("insert into big values (?)", [(bytes(9000),)] * 300)

        def checkpoint() -> None:
            connection.execute("update big set a = randomblob(9000)")
            connection.execute("pragma wal_checkpoint(truncate)")

        on_read(monkeypatch, path, checkpoint, times=2)
        live(bench, "snap_1", pauses=False)
    monkeypatch.undo()
    assert rows(restored(bench, "snap_1") / "x.db") == ["first", "second", "third"]


@pytest.mark.usefixtures("trusting")
def test_what_only_the_wal_has_is_in_the_next_save(bench: Bench) -> None:
    path = bench.make("pod") / "x.db"
    with used(path):
        live(bench, "snap_1")
        row = path.stat().st_ctime_ns
        insert(path, "fourth")
        assert path.stat().st_ctime_ns == row
        live(bench, "snap_2", "snap_1")
    tree = restored(bench, "snap_2")
    assert names(tree) == ["x.db"]
    assert rows(tree / "x.db") == ["first", "second", "third", "fourth"]


@pytest.mark.usefixtures("trusting")
def test_an_idle_database_is_not_copied_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "x.db"
    with used(path):
        live(bench, "snap_1")
        (path.parent / "other").write_bytes(b"new")
        monkeypatch.setattr("podferry_agent.snapshot.livedatabases.copied", None)
        live(bench, "snap_2", "snap_1")
    assert rows(restored(bench, "snap_2") / "x.db") == ["first", "second", "third"]


@pytest.mark.usefixtures("trusting")
def test_what_is_written_right_after_the_copy_is_in_the_next_save(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "x.db"

    @contextmanager
    def copied(*arguments: Any, **more: Any) -> Iterator[int]:
        with databases.copied(*arguments, **more) as fd:
            insert(path, "fourth")
            yield fd

    with used(path, "delete"):
        used_by = "podferry_agent.snapshot.livedatabases.copied"
        original = databases.copied
        monkeypatch.setattr(used_by, copied)
        live(bench, "snap_1")
        monkeypatch.setattr(used_by, original)
        live(bench, "snap_2", "snap_1")
    assert rows(restored(bench, "snap_2") / "x.db") == ["first", "second", "third", "fourth"]


@MODES
@pytest.mark.usefixtures("trusting")
def test_a_stop_after_a_save_stores_the_files_of_a_database_as_they_are(
    bench: Bench, mode: str
) -> None:
    path = bench.make("pod") / "x.db"
    with used(path, mode):
        live(bench, "snap_1")
        live(bench, "snap_2", "snap_1")
        bench.capture("pod", "snap_3", "snap_2")
        bench.make("new")
        bench.restore("new", "snap_3")
        assert bench.differences("pod", "new") == []


def test_a_restore_removes_a_wal_that_the_copy_does_not_need(bench: Bench) -> None:
    path = bench.make("pod") / "x.db"
    with used(path):
        live(bench, "snap_1")
        insert(path, "fourth")
        tree = bench.make("new")
        for name in names(path.parent):
            (tree / name).write_bytes((path.parent / name).read_bytes())
    bench.restore("new", "snap_1")
    assert names(tree) == ["x.db"]
    assert rows(tree / "x.db") == ["first", "second", "third"]


def test_a_database_that_nobody_has_open_is_stored_as_it_is(bench: Bench) -> None:
    """Also one with a WAL: opening it would write beside it."""
    path = bench.make("pod") / "x.db"
    with used(path):
        pass
    before = names(path.parent)
    (path.parent / "x.db-shm").unlink()
    assert "x.db-wal" in before
    assert live(bench, "snap_1").summary.torn == []
    assert names(path.parent) == ["x.db", "x.db-wal"]
    bench.make("new")
    bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []


@pytest.mark.usefixtures("trusting")
def test_a_wal_that_is_stored_stays_when_only_its_index_moves(bench: Bench) -> None:
    path = bench.make("pod") / "x.db"
    with used(path):
        pass
    live(bench, "snap_1")
    assert sorted(entries_of(bench, "snap_1")) == [b"", b"x.db", b"x.db-wal"]
    os.utime(path.with_name("x.db-shm"))
    live(bench, "snap_2", "snap_1")
    assert sorted(entries_of(bench, "snap_2")) == [b"", b"x.db", b"x.db-wal"]
    assert rows(restored(bench, "snap_2") / "x.db") == ["first", "second", "third"]


def test_files_that_only_have_the_name_of_a_wal_are_files(bench: Bench) -> None:
    tree = bench.make("pod")
    for name in ("-wal", "x-wal", "x.db-journal", "notes-shm"):
        (tree / name).write_bytes(name.encode())
    (tree / "x").write_bytes(b"no database")
    (tree / "y-wal").write_bytes(b"SQLite format 3\0 but not really")
    live(bench, "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("mode", "pauses"), [("wal", 0), ("delete", 1)])
def test_a_database_that_is_locked_is_read_while_nothing_moves(
    bench: Bench, mode: str, pauses: int
) -> None:
    """An idle one with a WAL and no -shm file need not wait for a pause."""
    path = bench.make("pod") / "x.db"
    with used(path, mode, locking="exclusive"):
        summary = live(bench, "snap_1").summary
        assert (summary.torn, summary.pauses) == ([], pauses)
    tree = restored(bench, "snap_1")
    assert "x.db-shm" not in names(tree)
    assert rows(tree / "x.db") == ["first", "second", "third"]


def test_a_locked_database_without_pauses_keeps_its_previous_save_whole(bench: Bench) -> None:
    path = bench.make("pod") / "x.db"
    with used(path, "delete"):
        live(bench, "snap_1")
        insert(path, "fourth")
        with closing(connect(path)) as connection:
            connection.execute("begin exclusive")
            connection.execute("insert into t values ('fifth')")
            summary = live(bench, "snap_2", "snap_1", pauses=False).summary
    assert summary.torn == ["x.db: kept as of snap_1"]
    assert summary.warnings == ["x.db: no SQLite copy could be made: database is locked"]
    assert entries_of(bench, "snap_2")[b"x.db"].bits & (TORN | KEPT) == TORN | KEPT
    tree = restored(bench, "snap_2")
    assert names(tree) == ["x.db"]
    assert rows(tree / "x.db") == ["first", "second", "third"]


@pytest.mark.usefixtures("patient")
def test_a_copy_that_the_disk_has_no_room_for_is_not_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "x.db"
    with used(path):
        full = os.statvfs_result((4096, 4096, 100, 1, 1, 1, 1, 1, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _: full)
        summary = live(bench, "snap_1").summary
    monkeypatch.undo()
    assert (summary.torn, summary.pauses) == ([], 1)
    assert "no room" in summary.warnings[0]
    assert rows(restored(bench, "snap_1") / "x.db") == ["first", "second", "third"]


def test_a_copy_leaves_nothing_in_the_state_of_the_agent(bench: Bench) -> None:
    path = bench.make("pod") / "x.db"
    with used(path):
        live(bench, "snap_1")
    assert [*(bench.base / "state-pod").rglob("copies/*")] == []
