"""Once a day old captures expire, also of pods that do not run, and the collector takes them."""

from contextlib import suppress
from datetime import timedelta

import pytest
from crashing_store import Crash
from invariants import check_at_rest, check_data, rows
from saving_scenes import collect, saved_each_minute
from scenes import DATA

from podferry.domain.operation import Cause
from podferry.domain.retention import KEEP_CAPTURES
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState, expired_owner


def shown_ids(world, subject_id):
    """Committed ones in the list of their environment or volume, oldest first."""
    listed = rows(world, Snapshot, subject_id)
    return [s.id for s in reversed(listed) if s.state == SnapshotState.COMMITTED]


def stopped_often(world, times=6):
    """A pod with several captures of its environment on one day."""
    pod = world.launch()
    world.box.volume = dict(DATA)
    world.box.environment["/opt/tool"] = "installed"
    world.stop(pod)
    for _ in range(times - 1):
        world.start(pod)
        world.stop(pod)
    return world.pod(pod)


def test_of_the_captures_of_an_environment_the_newest_and_one_a_day_are_kept(world):
    pod = stopped_often(world)
    before = shown_ids(world, pod.environment_id)
    assert len(before) == 6
    collect(world)
    assert shown_ids(world, pod.environment_id) == before[-KEEP_CAPTURES:]
    assert world.pod(pod).environment_head == before[-1]
    collect(world, days=7)
    for gone in before[:-KEEP_CAPTURES]:
        assert world.store.find(Snapshot, gone) is None
        prefix = f"{world.account.id}/{gone}/"
        keys = world.objects.keys(SnapshotKind.ENVIRONMENT)
        assert not [key for key in keys if key.startswith(prefix)]
    check_data(world, pod, DATA, "installed")
    check_at_rest(world, pod)


def test_one_capture_of_each_day_of_a_week_is_kept(world):
    pod = stopped_often(world, times=1)
    for _ in range(9):
        world.clock.advance(timedelta(days=1))
        world.start(pod)
        world.stop(pod)
    captures = shown_ids(world, pod.environment_id)
    collect(world)
    left = shown_ids(world, pod.environment_id)
    assert left == captures[-len(left) :]
    assert 6 <= len(left) <= 8


def test_saves_of_a_pod_that_is_stopped_are_thinned_as_well(world):
    pod = saved_each_minute(world, minutes=6)
    world.stop(pod)
    before = shown_ids(world, pod.volume_id)
    assert len(before) >= 5
    world.clock.advance(timedelta(days=40))
    collect(world)
    assert shown_ids(world, pod.volume_id) == [world.volume(pod).head]
    expired = rows(world, Snapshot, expired_owner(pod.volume_id))
    assert {s.id for s in expired} == set(before[:-1])
    collect(world, days=7)
    check_data(world, pod, DATA, "installed")
    check_at_rest(world, pod)


def test_nothing_that_is_restored_meanwhile_expires(world):
    pod = stopped_often(world, times=5)
    restored = world.pod(pod).environment_head
    world.app.start_pod.ask(world.account.id, pod.id, None, Cause.USER)
    collect(world)
    assert restored in shown_ids(world, pod.environment_id)
    world.run()
    check_data(world, pod, DATA, "installed")


@pytest.mark.parametrize("crash_at", range(1, 8))
def test_a_crash_while_thinning_loses_nothing(world, crash_at):
    pod = stopped_often(world, times=5)
    before = shown_ids(world, pod.environment_id)
    world.clock.advance(timedelta(days=1))
    world.store.crash_at = world.store.commits + crash_at
    with suppress(Crash):
        world.app.collect_garbage.run(lambda: True)
    world.store.crash_at = None
    collect(world, days=8)
    assert shown_ids(world, pod.environment_id) == before[-KEEP_CAPTURES:]
    check_data(world, pod, DATA, "installed")
    check_at_rest(world, pod)
