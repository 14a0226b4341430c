"""Saves of a running pod: when they come and what is shown of them."""

from datetime import timedelta
from itertools import pairwise

import pytest
from invariants import check_at_rest
from saving_scenes import ask_save, lose_machine, put_around, running, saves, shown, stop_and_accept

from podferry.domain.errors import WrongStateError
from podferry.domain.operation import OperationKind, OperationState
from podferry.domain.saving import SaveKind, SaveState
from podferry.services.pods import PodChange

# When they come


@pytest.mark.parametrize("has_timer", [True, False])
def test_promise_08_a_pod_that_runs_for_two_hours_has_a_save_every_interval(world, has_timer):
    pod = running(world, has_timer=has_timer)
    world.live(120)
    made = saves(world, pod)
    assert {s.save_kind for s in made} == {SaveKind.BACKGROUND}
    begun = [world.machine(pod).ready_at, *(s.created_at for s in made)]
    gaps = [later - earlier for earlier, later in pairwise(begun)]
    slack = timedelta(seconds=5) if has_timer else timedelta(seconds=60)
    assert all(timedelta(seconds=300) <= gap <= timedelta(seconds=300) + slack for gap in gaps)
    assert len(made) >= 120 / 6
    assert world.volume(pod).head == made[-1].id
    assert [s.parent_id for s in made] == [None, *(s.id for s in made[:-1])]


def test_promise_08_a_start_after_a_lost_machine_has_all_but_the_last_interval(world):
    pod = running(world, has_timer=True)
    for minute in range(23):
        world.box.volume["clock"] = str(minute)
        world.live(1)
    lose_machine(world)
    operation = stop_and_accept(world, pod)
    assert any("volume" in line for line in operation.lost)
    age = world.clock.now() - shown(world, pod).volume.saved_at
    world.start(pod)
    assert int(world.box.volume["clock"]) >= 22 - 5
    assert age <= timedelta(minutes=5, seconds=60 + 60)
    assert shown(world, pod).last_save.save_kind == SaveKind.BACKGROUND


def test_promise_08_a_schedule_that_is_dead_does_not_stop_the_saves(world):
    pod = running(world, has_timer=True)
    world.live(30, is_scheduled=False)
    assert len(saves(world, pod)) >= 5


def test_promise_08_a_control_plane_that_was_silent_for_20_minutes_is_saved_to_at_once(world):
    pod = running(world, has_timer=True)
    world.live(11)
    assert len(saves(world, pod)) == 2
    world.is_silent = True
    world.box.volume["work"] = "while nobody listened"
    world.live(20)
    assert len(saves(world, pod)) == 2
    assert shown(world, pod).save_state == SaveState.FAILING
    world.is_silent = False
    world.live(0.2)
    assert len(saves(world, pod)) == 3
    assert shown(world, pod).save_state == SaveState.SAVED


def test_the_interval_of_a_running_pod_can_be_changed(world):
    pod = running(world, has_timer=True)
    world.app.change_pod.change(
        world.account.id, pod.id, PodChange(save_interval_seconds=60), revision=None
    )
    world.live(12)
    assert len(saves(world, pod)) >= 6


def test_promise_17_a_stopped_pod_is_not_saved_and_nothing_is_scheduled(world):
    pod = running(world, has_timer=True)
    world.stop(pod)
    before = len(saves(world, pod))
    check_at_rest(world, pod)
    assert not world.schedules.is_enabled
    world.autosave()
    assert len(saves(world, pod)) == before


def test_background_saves_do_not_make_an_agent_beat_quickly(world):
    running(world, has_timer=True)
    world.live(4)
    beats = []

    def count(beat, *given):
        beats.append(world.seconds)
        return beat(*given)

    put_around(world, "heartbeat", "beat", count)
    world.live(10)
    assert len(beats) <= 60 + 4


# What a user sees and asks for


def test_the_pod_tells_how_old_its_newest_save_is(world):
    pod = running(world, has_timer=True)
    assert shown(world, pod).save_state == SaveState.NEVER_SAVED
    assert shown(world, pod).last_save is None
    world.box.volume["a"] = "1"
    world.live(6)
    seen = shown(world, pod)
    assert seen.save_state == SaveState.SAVED
    assert seen.last_save.id == world.volume(pod).head
    assert seen.volume.saved_at == seen.last_save.created_at
    assert seen.last_save.summary["files"] == 1


def test_a_save_that_a_user_asks_for_is_an_operation_and_has_its_label(world):
    pod = running(world)
    world.box.volume["a"] = "1"
    operation = ask_save(world, pod, "before the experiment")
    assert (operation.kind, operation.state) == (OperationKind.SAVE, OperationState.RUNNING)
    world.live(0.3)
    ended = world.operation(operation)
    assert ended.state == OperationState.SUCCEEDED
    (save,) = saves(world, pod)
    assert (save.save_kind, save.label) == (SaveKind.MANUAL, "before the experiment")
    assert ended.result["snapshot_id"] == save.id == world.volume(pod).head
    assert world.pod(pod).operation_id is None
    assert world.events(pod)[-2:] == ["pod.save_asked", "pod.saved"]
    check_at_rest(world, pod)


def test_a_save_that_is_asked_for_during_another_begins_after_it_and_has_what_was_written(world):
    pod = running(world, has_timer=True, holds_saves=True)
    world.live(5.2)
    operation = ask_save(world, pod, "mine")
    assert world.operation(operation).volume_snapshot_id is None
    world.box.volume["a"] = "written before it was asked for"
    world.live(1)
    world.box.holds_saves = False
    world.live(1, is_scheduled=False)
    background, manual = saves(world, pod)
    assert (background.save_kind, manual.save_kind) == (SaveKind.BACKGROUND, SaveKind.MANUAL)
    assert manual.created_at >= background.committed_at
    assert world.operation(operation).state == OperationState.SUCCEEDED


def test_a_second_save_is_refused_while_one_that_was_asked_for_waits(world):
    pod = running(world, has_timer=True, holds_saves=True)
    world.live(5.2)
    ask_save(world, pod)
    with pytest.raises(WrongStateError, match="waits to save"):
        ask_save(world, pod)


def test_a_pod_that_does_not_run_cannot_be_saved(world):
    pod = running(world)
    world.stop(pod)
    with pytest.raises(WrongStateError, match="is stopped; only a running pod can be saved"):
        ask_save(world, pod)


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_save_can_be_cancelled_before_and_after_it_has_begun(world, is_begun):
    pod = running(world, holds_saves=True, has_timer=not is_begun)
    world.live(0 if is_begun else 5.2)
    operation = ask_save(world, pod)
    world.live(0.3)
    cancelled = world.app.cancel_operation.ask(world.account.id, operation.id)
    assert cancelled.state == OperationState.CANCELLED
    with pytest.raises(WrongStateError):
        world.app.cancel_operation.ask(world.account.id, operation.id)
    world.box.holds_saves = False
    world.live(7)
    assert all(s.save_kind == SaveKind.BACKGROUND for s in saves(world, pod))
    assert saves(world, pod)
    check_at_rest(world, pod)


def test_the_reconciler_leaves_a_save_to_its_agent(world):
    pod = running(world, holds_saves=True)
    executions = list(world.engine.executions)
    operation = ask_save(world, pod)
    assert world.reconcile() == {"restarted": 0}
    assert list(world.engine.executions) == executions
    assert world.operation(operation).state == OperationState.RUNNING
    assert world.schedules.is_enabled
