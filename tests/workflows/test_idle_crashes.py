"""The function that stops idle pods dies before and after each of its writes."""

import pytest
from idle_scenes import POLICY, SLACK, STOP, WARN, happened, stops, watched_pod
from invariants import check_at_rest, check_data
from scenes import DATA
from world import World

from podferry.domain.operation import Cause, OperationState
from podferry.domain.pod import PodState
from podferry.services.idle.stop import StopIdle


class Counted:
    """Stands in for `StopIdle.run`: counts its writes, and dies at one of them."""

    def __init__(self, world, die_at=None, *, after_writing=False):
        self._world = world
        self._die_at = die_at
        self._after_writing = after_writing
        self._inner = StopIdle.run
        self.writes = 0

    def run(self, use_case):
        self._world.store.before_commit = self._note
        try:
            return self._inner(use_case)
        finally:
            self._world.store.before_commit = lambda: None

    def _note(self):
        self.writes += 1
        store = self._world.store
        if self.writes == self._die_at:
            store.crash_at, store.crash_after_writing = store.commits + 1, self._after_writing


def lived(world, counted, monkeypatch):
    pod = watched_pod(world)

    def run(use_case):
        return counted.run(use_case)

    monkeypatch.setattr(StopIdle, "run", run)
    world.watch(STOP + SLACK + 2, until=lambda: world.pod(pod).state == PodState.STOPPED)
    return pod


def writes_of_a_life():
    with pytest.MonkeyPatch.context() as patch:
        world = World()
        counted = Counted(world)
        lived(world, counted, patch)
        return counted.writes


WRITES = writes_of_a_life()


def test_there_is_a_write_for_each_minute():
    assert STOP < WRITES <= STOP + 3


@pytest.mark.parametrize("after_writing", [False, True])
@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_promise_10_a_crash_at_any_write_of_an_idle_time_heals(
    world, monkeypatch, number, after_writing
):
    counted = Counted(world, number, after_writing=after_writing)
    pod = lived(world, counted, monkeypatch)
    assert world.crashes == 1
    assert world.pod(pod).state == PodState.STOPPED
    (stop,) = stops(world, pod)
    assert (stop.cause, stop.state) == (Cause.IDLE, OperationState.SUCCEEDED)
    (warning,) = happened(world, pod, "pod.idle_warning")
    assert stop.created_at - warning.created_at >= POLICY.gap
    assert stop.created_at - pod.started_at >= POLICY.stop_after
    check_at_rest(world, pod)
    check_data(world, pod, DATA, "installed")


@pytest.mark.parametrize("minutes", [1, WARN - 1, WARN + 1, STOP - 1])
def test_the_machine_may_be_lost_at_any_moment_of_an_idle_time(world, minutes):
    pod = watched_pod(world)
    world.box.has_timer = True
    world.watch(6)
    lost = world.box
    world.watch(max(0.1, minutes - 6))
    lost.is_dead = lost.is_gone = True
    world.watch(30, until=lambda: world.pod(pod).machine_id not in {None, pod.machine_id})
    world.watch(1.5 * STOP, until=lambda: world.pod(pod).state == PodState.STOPPED)
    assert [o.cause for o in stops(world, pod)] == [Cause.IDLE]
    check_at_rest(world, pod)
