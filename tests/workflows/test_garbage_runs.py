"""Runs of the garbage collector that die, run out of time, are overtaken or have a wrong clock."""

from dataclasses import replace
from datetime import timedelta

import pytest
from crashing_store import Crash
from yard import KIND, LONG, Yard, a_history

from podferry.domain.event import Event
from podferry.domain.snapshot import Snapshot
from podferry.ports.store import Delete, Update
from podferry.services.garbage.shift import COLLECTOR_ID, begin


@pytest.fixture
def yard():
    return Yard()


def test_a_clock_that_jumps_ahead_ends_no_wait_by_itself(yard):
    _, _, given_up = a_history(yard)
    before = yard.world.objects.keys(KIND)
    # One run with a clock that is wrong: it marks, and its second look is not another round.
    yard.pass_days(400)
    assert yard.round(has_time=Times(4)) != {}
    yard.pass_days(400)
    yard.round()
    assert yard.snapshot(given_up).mark is not None
    assert yard.world.objects.keys(KIND) == before


def test_a_mark_from_the_future_is_made_anew(yard):
    _, _, given_up = a_history(yard)
    yard.pass_days(400)
    yard.round()
    yard.pass_days(-397)
    yard.rounds(LONG)
    assert yard.store.find(Snapshot, given_up) is None
    assert yard.missing() == []


class Times:
    """Has time so many times."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self) -> bool:
        self.left -= 1
        return self.left >= 0


@pytest.mark.parametrize("looks", range(1, 8))
def test_a_round_that_runs_out_of_time_is_finished_by_later_runs(yard, looks, monkeypatch):
    monkeypatch.setattr("podferry.services.garbage.sweep.PAGE", 2)
    _, _, given_up = a_history(yard)
    for _ in range(4 * LONG):
        yard.pass_days(1)
        yard.round(has_time=Times(looks + 6))
        assert yard.missing() == []
    assert yard.needless() == set()
    assert yard.store.find(Snapshot, given_up) is None


def test_a_later_run_goes_on_behind_what_the_round_has_finished(yard):
    a_history(yard)
    yard.pass_days(3)
    yard.world.app.accounts.create("another")
    done = f"{yard.world.account.id}/{KIND}"
    assert not yard.round(has_time=lambda: yard.collector().done != done)["is_finished"]
    assert yard.collector().done == done
    yard.store.commit(Delete(yard.snapshots()[0]))
    assert yard.round()["is_finished"]
    assert yard.world.signals.counts["GarbageHalted"] == 0
    yard.round()
    assert yard.world.signals.counts["GarbageHalted"] == 1


def test_what_a_round_freed_is_told_in_an_event_and_in_counters(yard):
    a_history(yard)
    before = sum(len(yard.world.objects.read(KIND, key)) for key in yard.world.objects.keys(KIND))
    count = len(yard.world.objects.keys(KIND))
    yard.rounds(LONG)
    after = sum(len(yard.world.objects.read(KIND, key)) for key in yard.world.objects.keys(KIND))
    told = yard.store.list_owned(Event, COLLECTOR_ID, limit=100).items
    assert {event.type for event in told} == {"garbage.collected"}
    assert sum(event.evidence["bytes"] for event in told) == before - after
    assert sum(event.evidence["snapshots"] for event in told) == 3
    counts = yard.world.signals.counts
    assert counts["GarbageBytesFreed"] == before - after
    assert counts["GarbageObjectsFreed"] == count - len(yard.world.objects.keys(KIND))


def commits_of_a_life():
    yard = Yard()
    a_history(yard)
    yard.store.commits = 0
    yard.rounds(LONG)
    return yard.store.commits


@pytest.mark.parametrize("after_writing", [False, True])
@pytest.mark.parametrize("number", range(1, commits_of_a_life() + 1))
def test_case_s13_a_crash_at_any_write_heals_in_later_rounds(yard, number, after_writing):
    a_history(yard)
    yard.store.commits = 0
    yard.store.crash_at = number
    yard.store.crash_after_writing = after_writing
    for _ in range(2 * LONG):
        yard.rounds(1)
        assert yard.missing() == []
    assert yard.world.crashes == 1
    assert yard.needless() == set()


@pytest.mark.parametrize("after_deleting", [False, True])
@pytest.mark.parametrize("number", range(3))
def test_case_s13_a_crash_at_any_deletion_heals_in_later_rounds(yard, number, after_deleting):
    a_history(yard)
    objects, delete = yard.world.objects, yard.world.objects.delete
    left = [number]

    def dying(kind, keys):
        left[0] -= 1
        half = keys if after_deleting else keys[: len(keys) // 2]
        if left[0] == -1:
            delete(kind, half)
            raise Crash
        delete(kind, keys)

    objects.delete = dying
    yard.rounds(2 * LONG)
    assert yard.world.crashes == 1
    assert yard.missing() == []
    assert yard.needless() == set()


def test_a_shift_that_was_overtaken_can_write_nothing(yard):
    save = yard.snapshot(yard.save(yard.volume()))
    old = begin(yard.records, lambda: True)
    new = begin(yard.records, lambda: True)
    assert not old.commit(Update(save))
    assert not old.commit_counted(replace(old.row, objects_freed=1), Update(save))
    assert not old.may_go_on
    assert new.commit(Update(save))
    assert not new.commit(Update(save))
    assert new.may_go_on


def test_a_run_that_was_overtaken_writes_nothing_more(yard):
    a_history(yard)
    yard.rounds(3)
    inner = []

    def another():
        if not inner and yard.collector().finished_at is None:
            inner.append("begun")
            yard.store.before_commit = lambda: None
            yard.world.clock.advance(timedelta(seconds=1))
            inner.append(yard.round())

    yard.pass_days(1)
    yard.store.before_commit = another
    outer = yard.round()
    assert inner[1]["is_finished"]
    assert outer["is_overtaken"]
    assert not outer["is_finished"]
    yard.rounds(LONG)
    assert yard.missing() == []
    assert yard.needless() == set()
