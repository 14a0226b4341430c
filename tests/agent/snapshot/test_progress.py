"""Progress: exact at the end of each phase, never going back, with an estimate that fits."""

import os
import threading
from collections.abc import Iterable
from itertools import groupby, pairwise

import pytest

from podferry_agent.progress import ProgressReporter
from podferry_agent.snapshot import Progress
from podferry_agent.snapshot.progress import Estimate, Meter
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench


def by_phase(seen: Iterable[Progress]) -> dict[str, list[Progress]]:
    return {phase: list(rows) for phase, rows in groupby(seen, lambda p: p.phase)}


def assert_exact_and_monotone(seen: list[Progress]) -> None:
    for phase, rows in by_phase(seen).items():
        for before, after in pairwise(rows):
            assert before.bytes_done <= after.bytes_done, phase
            assert before.files_done <= after.files_done, phase
        last = rows[-1]
        assert last.files_total in (None, last.files_done), phase
        assert last.bytes_total in (None, last.bytes_done), phase


@pytest.fixture
def captured(bench: Bench) -> Bench:
    """Every kind of file, equal contents, holes, and a file of several chunks."""
    bench.root("pod").mkdir()
    trees.make_torture(bench.tree("pod"))
    for number in range(50):
        (bench.tree("pod") / f"twin{number}").write_bytes(b"the same")
    (bench.tree("pod") / "several-chunks").write_bytes(os.urandom(12 << 20))
    bench.capture("pod", "snap_1")
    return bench


def test_a_restore_to_an_empty_machine_counts_every_byte_and_file_once(captured: Bench) -> None:
    seen: list[Progress] = []
    captured.make("new")
    outcome = captured.restore("new", "snap_1", progress=seen.append)
    assert_exact_and_monotone(seen)
    phases = by_phase(seen)
    assert list(phases) == ["prepare", "compare", "stage", "swap", "verify"]
    staged = phases["stage"][-1]
    # Of the names of one inode, one is staged.
    assert staged.bytes_total == sum(
        size for path, size in sizes(captured, "pod").items() if path != b"b/hl"
    )
    assert staged.files_done < outcome.files


def sizes(bench: Bench, machine: str) -> dict[bytes, int]:
    tree = os.fsencode(bench.tree(machine))
    found = {}
    for directory, _, names in os.walk(tree):
        for name in names:
            path = directory + b"/" + name
            if os.path.isfile(path) and not os.path.islink(path):  # noqa: PTH113, PTH114
                found[os.path.relpath(path, tree)] = os.lstat(path).st_size
    return found


def test_a_restore_over_an_older_state_counts_every_byte_and_file_once(captured: Bench) -> None:
    captured.make("live")
    captured.restore("live", "snap_1")
    live = captured.tree("live")
    for number in range(0, 50, 3):
        (live / f"twin{number}").write_bytes(b"changed!")
    (live / "plain").unlink()
    (live / "extra").write_bytes(b"only here")
    seen: list[Progress] = []
    captured.restore("live", "snap_1", progress=seen.append)
    assert_exact_and_monotone(seen)
    assert by_phase(seen)["swap"][-1].files_done == 17 + 1 + 1


def test_a_restore_that_finds_what_a_killed_one_staged_counts_that_as_done(captured: Bench) -> None:
    cancelled = threading.Event()
    captured.make("new")

    def stop(progress: Progress) -> None:
        if progress.phase == "swap":
            cancelled.set()

    with pytest.raises(Exception, match="cancelled"):
        captured.restore("new", "snap_1", progress=stop, cancelled=cancelled)
    seen: list[Progress] = []
    outcome = captured.restore("new", "snap_1", progress=seen.append)
    assert outcome.written_bytes == len(b"linked")  # what has two names is not trusted
    assert_exact_and_monotone(seen)
    assert captured.differences("pod", "new") == []


def test_the_estimate_follows_the_last_ten_seconds() -> None:
    estimate = Estimate(100.0)
    total = (1000, 10)
    assert estimate.seconds(100.5, (100, 1), total) is None  # too early to tell
    assert estimate.seconds(105.0, (500, 5), total) == 5
    # From here on it crawls: at 120 s only the ten seconds before count.
    assert estimate.seconds(110.0, (510, 5), total) == 10
    assert estimate.seconds(120.0, (520, 5), total) == 480
    assert estimate.seconds(121.0, (1000, 10), total) == 0


def test_the_estimate_goes_by_what_takes_longest() -> None:
    """Big files first: nearly all bytes are done, and nearly no file."""
    estimate = Estimate(0.0)
    assert estimate.seconds(9.0, (900, 1), (1000, 10)) == 81


def test_without_totals_there_is_no_estimate() -> None:
    estimate = Estimate(0.0)
    assert estimate.seconds(9.0, (900, 1), (None, None)) is None
    assert estimate.seconds(9.5, (0, 0), (0, 0)) is None


def test_threads_cannot_make_the_progress_go_back() -> None:
    seen: list[Progress] = []
    meter = Meter(seen.append, threading.Event())
    meter.phase("stage", 4000, 4000)

    def work() -> None:
        for _ in range(1000):
            meter.add(1, 1)
            meter.finish()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_exact_and_monotone(seen)
    assert seen[-1].bytes_done == 4000


def test_the_control_plane_is_told_all_of_it() -> None:
    told: list[dict[str, object]] = []
    ProgressReporter(told.append)(Progress("stage", 5, 10, 1, 2, 7))
    assert told == [
        {
            "phase": "stage",
            "bytes_done": 5,
            "bytes_total": 10,
            "files_done": 1,
            "files_total": 2,
            "eta_seconds": 7,
        }
    ]


def test_a_capture_has_an_estimate_once_it_knows_how_much_there_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.make("pod") / "file").write_bytes(os.urandom(1 << 20))
    monkeypatch.setattr("podferry_agent.snapshot.progress._SHORTEST", 0.0)
    seen: list[Progress] = []
    bench.capture("pod", "snap_1", progress=seen.append)
    assert by_phase(seen)["read"][-1].eta_seconds == 0
