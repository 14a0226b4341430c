"""Files of a live volume: what is whole, what is torn, and what a torn file keeps."""

import mmap
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest

from podferry_agent.snapshot import CaptureOutcome, InvalidSpecError
from podferry_agent.snapshot.model import HAS_HOLES, KEPT, TORN
from tests.agent.snapshot import writers
from tests.agent.snapshot.conftest import Bench, on_preadv
from tests.agent.snapshot.test_capture_cases import grow, on_read
from tests.agent.snapshot.test_live_volumes import entries_of

SIZES = pytest.mark.parametrize("size", [1000, 3 << 20, 20 << 20], ids=["small", "chunk", "big"])
ALWAYS = 1000
_NUMBERS = count()


def overwrite(path: Path) -> Callable[[], None]:
    """First and last byte at once: a reading that begins before and ends after has two moments."""

    def action() -> None:
        size, byte = path.stat().st_size, bytes([next(_NUMBERS) % 251])
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), byte, 0)
            os.pwrite(file.fileno(), byte, size - 1)

    return action


@contextmanager
def stores(path: Path) -> Iterator[Callable[[], None]]:
    """The same by stores to pages that are dirty already: no time of the file moves."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        os.fsync(file.fileno())  # or the pages become clean when the kernel writes them back
        number = 0

        def action() -> None:
            nonlocal number
            number += 1
            memory[0] = memory[-1] = number % 256

        action()
        yield action


def live(
    bench: Bench, snapshot_id: str, parent: str | None = None, **more: object
) -> CaptureOutcome:
    return bench.capture("pod", snapshot_id, parent, **{"live": True, "cpu_share": 1.0, **more})


def restored(bench: Bench, snapshot_id: str) -> Path:
    tree = bench.make(f"of-{snapshot_id}")
    bench.restore(f"of-{snapshot_id}", snapshot_id)
    return tree


@SIZES
def test_promise_08_a_torn_file_keeps_content_size_and_time_of_its_previous_good_save(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = bench.make("pod") / "array"
    path.write_bytes(os.urandom(size))
    os.utime(path, ns=(1, 1_600_000_000_000_000_000))
    before = path.read_bytes()
    live(bench, "snap_1")
    path.write_bytes(os.urandom(size + 10))
    path.chmod(0o640)
    on_read(monkeypatch, path, overwrite(path), ALWAYS)
    outcome = live(bench, "snap_2", "snap_1")
    monkeypatch.undo()
    assert outcome.summary.torn == ["array: kept as of snap_1"]
    entry = entries_of(bench, "snap_2")[b"array"]
    assert entry.bits & (TORN | KEPT) == TORN | KEPT
    assert entry.kept == "snap_1"
    found = restored(bench, "snap_2") / "array"
    assert found.read_bytes() == before
    assert found.stat().st_mtime_ns == 1_600_000_000_000_000_000
    assert stat.S_IMODE(found.stat().st_mode) == 0o640


def test_a_file_that_is_torn_twice_names_the_save_that_had_it_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "array"
    path.write_bytes(b"good" * 100)
    live(bench, "snap_1")
    on_read(monkeypatch, path, overwrite(path), ALWAYS)
    overwrite(path)()
    live(bench, "snap_2", "snap_1")
    assert live(bench, "snap_3", "snap_2").summary.torn == ["array: kept as of snap_1"]
    monkeypatch.undo()
    assert (restored(bench, "snap_3") / "array").read_bytes() == b"good" * 100
    overwrite(path)()
    assert live(bench, "snap_4", "snap_3").summary.torn == []
    assert (restored(bench, "snap_4") / "array").read_bytes() == path.read_bytes()
    assert entries_of(bench, "snap_4")[b"array"].kept == ""


def test_a_torn_file_whose_parent_is_torn_too_is_stored_as_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "array"
    path.write_bytes(b"x" * 5000)
    on_read(monkeypatch, path, overwrite(path), ALWAYS)
    assert live(bench, "snap_1").summary.torn == ["array: as read"]
    assert live(bench, "snap_2", "snap_1").summary.torn == ["array: as read"]
    monkeypatch.undo()
    found = (restored(bench, "snap_2") / "array").read_bytes()
    assert (len(found), found[1:-1]) == (5000, b"x" * 4998)


def test_a_kept_file_keeps_its_holes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bench.make("pod") / "sparse"
    path.write_bytes(b"head")
    os.truncate(path, 8 << 20)
    live(bench, "snap_1")
    path.write_bytes(os.urandom(9 << 20))
    on_read(monkeypatch, path, overwrite(path), ALWAYS)
    live(bench, "snap_2", "snap_1")
    monkeypatch.undo()
    assert entries_of(bench, "snap_2")[b"sparse"].bits == TORN | KEPT | HAS_HOLES
    found = restored(bench, "snap_2") / "sparse"
    assert found.read_bytes() == b"head" + bytes((8 << 20) - 4)
    assert found.stat().st_blocks * 512 < 1 << 20


def test_the_previous_content_is_found_without_facts_of_this_machine(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "array"
    path.write_bytes(b"good" * 100)
    live(bench, "snap_1")
    on_read(monkeypatch, path, overwrite(path), ALWAYS)
    overwrite(path)()
    elsewhere = os.fsencode(bench.base / "state-lost")
    outcome = live(bench, "snap_2", "snap_1", state_dir=elsewhere)
    assert outcome.summary.torn == ["array: kept as of snap_1"]


@SIZES
def test_case_s17_a_log_that_grows_all_the_time_is_whole_up_to_where_it_was(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = bench.make("pod") / "log"
    path.write_bytes(os.urandom(size))
    before = path.read_bytes()
    on_read(monkeypatch, path, grow(path), ALWAYS)
    assert live(bench, "snap_1").summary.torn == []
    monkeypatch.undo()
    found = (restored(bench, "snap_1") / "log").read_bytes()
    assert found.startswith(before)
    assert path.read_bytes().startswith(found)
    assert found[size:] == b"more" * ((len(found) - size) // 4)


@SIZES
def test_case_s17_a_file_that_grows_and_changes_before_its_end_is_torn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = bench.make("pod") / "log"
    path.write_bytes(os.urandom(size))

    def action() -> None:
        overwrite(path)()
        grow(path)()

    on_read(monkeypatch, path, action, ALWAYS)
    assert live(bench, "snap_1").summary.torn == ["log: as read"]


def test_case_s17_a_checkpoint_that_is_renamed_over_while_it_is_read_is_the_old_or_the_new(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "model.ckpt"
    path.write_bytes(b"1" * (20 << 20))

    def replace() -> None:
        path.with_name("tmp").write_bytes(b"2" * (20 << 20))
        path.with_name("tmp").replace(path)

    on_read(monkeypatch, path, replace, times=1)
    assert live(bench, "snap_1").summary.torn == []
    monkeypatch.undo()
    assert set((restored(bench, "snap_1") / "model.ckpt").read_bytes()) in ({ord("1")}, {ord("2")})


def test_stores_to_a_mapped_file_are_seen_though_its_times_do_not_move(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "array"
    path.write_bytes(bytes(20 << 20))
    with stores(path) as store:
        on_read(monkeypatch, path, store, times=4)
        assert live(bench, "snap_1", pauses=False).summary.torn == []
        monkeypatch.undo()
        found = (restored(bench, "snap_1") / "array").read_bytes()
        assert found[0] == found[-1]


def test_a_mapped_file_that_never_holds_still_is_torn_and_not_stored_again_and_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "array"
    path.write_bytes(os.urandom(20 << 20))
    live(bench, "snap_1")
    before = path.read_bytes()
    with stores(path) as store:
        on_read(monkeypatch, path, store, ALWAYS)
        outcome = live(bench, "snap_2", "snap_1")
        monkeypatch.undo()
    assert outcome.summary.torn == ["array: kept as of snap_1"]
    assert outcome.summary.new_bytes == 0
    assert (restored(bench, "snap_2") / "array").read_bytes() == before


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize("is_live", [True, False], ids=["save", "stop"])
def test_what_is_stored_to_a_mapped_file_after_a_save_is_in_the_next_capture(
    bench: Bench, *, is_live: bool
) -> None:
    path = bench.make("pod") / "array"
    path.write_bytes(bytes(20_000))
    with stores(path) as store:
        live(bench, "snap_1")
        store()
        bench.capture("pod", "snap_2", "snap_1", live=is_live)
        assert (restored(bench, "snap_2") / "array").read_bytes() == path.read_bytes()


@pytest.mark.usefixtures("trusting")
def test_a_save_reads_a_mapped_file_that_an_exact_capture_believed_unchanged(bench: Bench) -> None:
    path = bench.make("pod") / "array"
    path.write_bytes(bytes(20_000))
    with stores(path) as store:
        bench.capture("pod", "snap_1")
        store()
        live(bench, "snap_2", "snap_1")
        assert (restored(bench, "snap_2") / "array").read_bytes() == path.read_bytes()


def on_pass(
    monkeypatch: pytest.MonkeyPatch,
    path: Path,
    action: Callable[[], None],
    numbers: tuple[int, ...],
) -> None:
    """Call `action` after the first read of those passes through a file."""
    status = path.stat()
    original = os.preadv
    passes = count(1)

    def preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        got = original(fd, buffers, offset)
        is_pass = offset == 0 and os.fstat(fd).st_ino == status.st_ino
        if is_pass and next(passes) in numbers:
            action()
        return got

    on_preadv(monkeypatch, preadv)


def test_a_mapped_file_that_held_still_twice_is_still_compared_with_what_was_stored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.make("pod") / "array"
    path.write_bytes(bytes(20 << 20))
    with stores(path) as store:
        on_pass(monkeypatch, path, store, (3,))
        assert live(bench, "snap_1", pauses=False).summary.torn == []
    monkeypatch.undo()
    found = (restored(bench, "snap_1") / "array").read_bytes()
    assert found[0] == found[-1]


def test_a_file_that_is_mapped_after_the_first_look_is_read_with_the_same_care(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podferry_agent.snapshot.watch.TICK_NS", 0)
    path = bench.make("pod") / "array"
    path.write_bytes(bytes(20 << 20))
    with ExitStack() as stack:
        begun: list[Callable[[], None]] = []

        def store() -> None:
            if not begun:
                begun.append(stack.enter_context(stores(path)))
            begun[0]()

        # The first store moves the times, the third comes while the file is read once more.
        on_pass(monkeypatch, path, store, (1, 3))
        assert live(bench, "snap_1", pauses=False).summary.torn == []
    monkeypatch.undo()
    found = (restored(bench, "snap_1") / "array").read_bytes()
    assert found[0] == found[-1]


def test_a_time_that_is_too_young_proves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on kernels whose file times move only every few milliseconds."""
    path = bench.make("pod") / "array"
    path.write_bytes(bytes(20 << 20))
    unseen = "podferry_agent.snapshot.openfiles._mappings"
    monkeypatch.setattr(unseen, lambda _: [])
    monkeypatch.setattr("podferry_agent.snapshot.watch.TICK_NS", 3_600_000_000_000)
    with stores(path) as store:
        on_read(monkeypatch, path, store, times=2)
        assert live(bench, "snap_1").summary.torn == []
    monkeypatch.undo()
    found = (restored(bench, "snap_1") / "array").read_bytes()
    assert found[0] == found[-1]


def test_case_s17_half_a_checkpoint_that_is_being_written_in_place_does_not_replace_a_whole_one(
    bench: Bench,
) -> None:
    path = bench.make("pod") / "model.ckpt"
    path.write_bytes(b"1" * 1_000_000)
    live(bench, "snap_1")
    with writers.holding(path, "wb", b"2" * 30_000):
        outcome = live(bench, "snap_2", "snap_1")
        assert outcome.summary.torn == ["model.ckpt: kept as of snap_1"]
        assert (restored(bench, "snap_2") / "model.ckpt").read_bytes() == b"1" * 1_000_000
        assert live(bench, "snap_3", "snap_2").summary.torn == []
        assert (restored(bench, "snap_3") / "model.ckpt").read_bytes() == b"2" * 30_000


def test_a_log_that_was_cut_short_by_its_own_program_is_stored_as_it_is(bench: Bench) -> None:
    path = bench.make("pod") / "log"
    path.write_bytes(b"1" * 1_000_000)
    live(bench, "snap_1")
    os.truncate(path, 0)
    with writers.holding(path, "ab", b"2" * 1000):
        assert live(bench, "snap_2", "snap_1").summary.torn == []


def test_an_exact_capture_looks_at_no_process(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.make("pod") / "x.db").write_bytes(b"SQLite format 3\0" + bytes(1000))

    def refuse() -> Iterator[int]:
        raise AssertionError("it looked")

    monkeypatch.setattr("podferry_agent.snapshot.openfiles._processes", refuse)
    bench.capture("pod", "snap_1")
    with pytest.raises(AssertionError, match="it looked"):
        live(bench, "snap_2", "snap_1")


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_a_share_of_the_cpu_that_makes_no_sense_is_refused(bench: Bench, share: float) -> None:
    bench.make("pod")
    with pytest.raises(InvalidSpecError, match="above 0"):
        live(bench, "snap_1", cpu_share=share)
