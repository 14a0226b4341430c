"""How much of the CPU a capture takes that is told to leave the rest to others."""

import os
import threading
import time
from pathlib import Path

import pytest

from podferry_agent.snapshot import CancelledByCallerError
from podferry_agent.snapshot.pace import Pace
from tests.agent.snapshot.conftest import Bench


def fill(tree: Path) -> None:
    block = os.urandom(1 << 20)
    for number in range(300):
        (tree / f"small-{number}").write_bytes(number.to_bytes(2, "big") * 8 + block[:20_000])
    for number in range(12):
        (tree / f"big-{number}").write_bytes((number.to_bytes(2, "big") * 8 + block) * 6)


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "exact"])
def test_a_capture_keeps_to_its_share_of_a_core(bench: Bench, *, is_live: bool) -> None:
    fill(bench.make("pod"))
    wall, cpu = time.monotonic(), time.process_time()
    bench.capture("pod", "snap_1", live=is_live, cpu_share=0.25)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    assert cpu > 0.1  # there is enough to do for the share to show
    assert cpu / wall < 0.35


def test_a_save_of_a_live_volume_is_paced_and_nice_unless_told_otherwise(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.make("pod") / "file").write_bytes(b"x")
    seen = []
    original = Pace.breathe

    def breathe(pace: Pace) -> None:
        seen.append((pace.share, os.getpriority(os.PRIO_PROCESS, threading.get_native_id())))
        original(pace)

    monkeypatch.setattr(Pace, "breathe", breathe)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    bench.capture("pod", "snap_1", live=True)
    assert set(seen) == {(0.5, before + 10)}
    seen.clear()
    bench.capture("pod", "snap_2")
    assert set(seen) == {(None, before)}
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_a_capture_that_sleeps_can_be_cancelled() -> None:
    cancelled = threading.Event()
    pace = Pace(0.0001, cancelled)
    begin = time.process_time()
    while time.process_time() - begin < 0.02:
        pass
    threading.Timer(0.05, cancelled.set).start()
    with pytest.raises(CancelledByCallerError):
        pace.breathe()
