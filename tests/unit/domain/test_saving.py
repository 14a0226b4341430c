from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from podferry.domain.pod import Failure
from podferry.domain.saving import (
    LONGEST_QUIET_SAVE,
    SaveState,
    Saving,
    due_at,
    needs_whole_save,
    overdue_at,
    save_state,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
INTERVAL = 5 * MINUTE


def failed(times: int, code: str = "agent_error") -> Saving:
    error = Failure(code=code, detail="", at=NOW)
    return Saving(begun_at=NOW - MINUTE, failures=times, error=error)


def test_first_save_is_due_an_interval_after_the_machine_is_ready() -> None:
    assert due_at(Saving(), NOW, INTERVAL) == NOW + INTERVAL


def test_saves_begin_an_interval_apart_however_long_they_take() -> None:
    assert due_at(Saving(begun_at=NOW), NOW - MINUTE, INTERVAL) == NOW + INTERVAL


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 15), (2, 30), (3, 60), (4, 120), (5, 240), (6, 300), (500, 300)]
)
def test_save_that_failed_is_tried_again_soon_then_less_often(failures: int, seconds: int) -> None:
    assert due_at(failed(failures), NOW, INTERVAL) == NOW + timedelta(seconds=seconds)


def test_saves_are_overdue_after_two_intervals_and_a_minute() -> None:
    assert overdue_at(Saving(), NOW, INTERVAL) == NOW + 11 * MINUTE


def test_save_that_is_under_way_may_take_an_hour() -> None:
    saving = Saving(open_id="snap_1")
    assert overdue_at(saving, NOW, INTERVAL) == NOW + LONGEST_QUIET_SAVE
    assert overdue_at(saving, NOW, 60 * MINUTE) == NOW + 121 * MINUTE


@pytest.mark.parametrize(
    ("saving", "head", "is_running", "word"),
    [
        (Saving(), None, True, SaveState.NEVER_SAVED),
        (Saving(), "snap_1", True, SaveState.SAVED),
        (failed(1), "snap_1", True, SaveState.FAILING),
        (failed(1), None, True, SaveState.FAILING),
        (replace(Saving(), is_overdue=True), "snap_1", True, SaveState.FAILING),
        (failed(1), "snap_1", False, SaveState.SAVED),
        (failed(1), None, False, SaveState.NEVER_SAVED),
    ],
)
def test_one_word_says_how_the_saves_go(
    saving: Saving, head: str | None, is_running: bool, word: SaveState
) -> None:
    assert save_state(saving, head, is_running=is_running) == word


def test_only_saves_that_are_damaged_again_and_again_are_made_without_a_parent() -> None:
    assert needs_whole_save(failed(3, "snapshot_corrupt"))
    assert not needs_whole_save(failed(2, "snapshot_corrupt"))
    assert not needs_whole_save(failed(9, "agent_error"))
    assert not needs_whole_save(Saving())
