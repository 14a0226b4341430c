"""A machine says that it will go: the last save, and the way to the next machine."""

import pytest
from invariants import check_at_rest, rows
from recovery_scenes import (
    announce,
    evidence,
    machine_row,
    recoveries,
    saved_pod,
    say,
    silence,
    take_away,
    until_running_elsewhere,
)
from saving_scenes import running, saves

from podferry.domain.command import CommandKind
from podferry.domain.errors import EpochStaleError
from podferry.domain.machine import Machine, NoticeKind
from podferry.domain.operation import (
    Cause,
    Operation,
    OperationKind,
    OperationState,
)
from podferry.domain.pod import Desired, OnReclaim, PodState
from podferry.domain.saving import SaveKind
from podferry.ports.gpu_cloud import ViewState
from podferry.services.pods import PodChange
from podferry.services.recover.notices import MOST_TRIES


def operations(world, pod, kind):
    listed = rows(world, Operation, pod.id)
    return [o for o in reversed(listed) if o.kind == kind]


@pytest.mark.parametrize("kind", [NoticeKind.RECLAIM, NoticeKind.SHUTDOWN])
def test_promise_08_the_save_of_the_last_seconds_is_what_the_pod_comes_back_with(world, kind):
    pod = saved_pod(world)
    announce(world, world.box, kind, 5.0)
    save = saves(world, pod)[-1]
    assert save.save_kind == SaveKind.RECLAIM
    take_away(world)
    until_running_elsewhere(world, pod, pod.machine_id, minutes=3)
    assert world.box.volume == {"work": "not saved"}
    told = recoveries(world, pod)[0].result["recovered_from"]
    assert told["snapshot_id"] == save.id
    assert told["age_seconds"] < 15
    assert evidence(world, pod, "machine.notice")["kind"] == kind
    check_at_rest(world, pod)


def test_a_save_that_is_not_committed_in_time_is_not_the_head(world):
    pod = saved_pod(world)
    head = world.volume(pod).head
    world.box.holds_saves = True
    announce(world, world.box, NoticeKind.RECLAIM, 5.0)
    assert world.volume(pod).saving.open_id is not None
    take_away(world)
    until_running_elsewhere(world, pod, pod.machine_id)
    assert world.volume(pod).head == head
    assert world.box.volume == {"work": "saved"}
    check_at_rest(world, pod)


def test_the_same_notice_again_is_one_notice_and_one_more_save(world):
    pod = saved_pod(world)
    announce(world, world.box, NoticeKind.RECLAIM)
    first = machine_row(world, pod.machine_id).notice
    announce(world, world.box, NoticeKind.RECLAIM)
    assert machine_row(world, pod.machine_id).notice == first
    assert [e for e in world.events(pod) if e == "machine.notice"] == ["machine.notice"]
    assert [s.save_kind for s in saves(world, pod)[-2:]] == [SaveKind.RECLAIM] * 2


def test_a_notice_that_says_more_replaces_one_that_says_less(world):
    pod = saved_pod(world)
    box = world.box
    announce(world, box, NoticeKind.MAINTENANCE, 3600.0)
    announce(world, box, NoticeKind.RECLAIM)
    announce(world, box, NoticeKind.MAINTENANCE, 60.0)
    assert machine_row(world, pod.machine_id).notice.kind == NoticeKind.RECLAIM
    assert machine_row(world, pod.machine_id).notice.deadline_at is None
    announce(world, box, NoticeKind.RECLAIM, 120.0)
    assert machine_row(world, pod.machine_id).notice.deadline_at is not None


def test_a_save_under_way_is_gone_on_with_at_a_notice(world):
    pod = running(world, has_timer=True, holds_saves=True)
    world.watch(5.2)
    open_id = world.volume(pod).saving.open_id
    turn = announce(world, world.box, NoticeKind.RECLAIM)
    assert turn.command.arguments["snapshot_id"] == open_id


def test_a_notice_that_proves_false_changes_nothing(world):
    """The machine speaks on, so it keeps its pod."""
    pod = saved_pod(world)
    announce(world, world.box, NoticeKind.RECLAIM, 30.0)
    world.watch(30)
    assert world.pod(pod).machine_id == pod.machine_id
    assert recoveries(world, pod) == []


@pytest.mark.parametrize(("is_told", "minutes"), [(True, 2.2), (False, 4.2)])
def test_a_machine_that_said_so_is_lost_sooner_when_it_has_stopped(world, is_told, minutes):
    pod = saved_pod(world)
    if is_told:
        announce(world, world.box, NoticeKind.SHUTDOWN)
    box = world.box
    silence(box)
    say(world, box, ViewState.STOPPED, "exited")
    until_running_elsewhere(world, pod, pod.machine_id, minutes=minutes)


def test_a_machine_that_was_lost_cannot_give_notice(world):
    pod = saved_pod(world)
    box = take_away(world)
    until_running_elsewhere(world, pod, pod.machine_id)
    with pytest.raises(EpochStaleError):
        announce(world, box)


# Maintenance


def test_promise_09_capacity_that_goes_while_the_pod_is_stopped_is_waited_for(world):
    pod = saved_pod(world)

    def sell_out(step, _operation_id):
        if step == "FinishStop":
            world.alpha.has_stock = world.beta.has_stock = False

    world.before_step = sell_out
    announce(world, world.box, NoticeKind.MAINTENANCE, 3600.0)
    world.watch(10)
    assert world.pod(pod).state == PodState.WAITING_FOR_CAPACITY
    world.before_step = lambda *_: None
    world.beta.has_stock = True
    until_running_elsewhere(world, pod, pod.machine_id, minutes=5)
    check_at_rest(world, pod)


def test_promise_09_before_maintenance_the_pod_moves_away_with_everything(world):
    pod = saved_pod(world)
    host = world.machine(pod).offer.host
    assert announce(world, world.box, NoticeKind.MAINTENANCE, 3600.0).command is None
    until_running_elsewhere(world, pod, pod.machine_id)
    assert world.box.volume == {"work": "not saved"}
    assert world.machine(pod).offer.host != host
    (stop,) = operations(world, pod, OperationKind.STOP)
    assert (stop.cause, stop.state) == (Cause.MAINTENANCE, OperationState.SUCCEEDED)
    world.watch(10)
    assert len(operations(world, pod, OperationKind.MOVE)) == 1
    check_at_rest(world, pod)


def left_with_nowhere_to_go(world):
    pod = saved_pod(world)
    world.alpha.has_stock = world.beta.has_stock = False
    announce(world, world.box, NoticeKind.MAINTENANCE, 3600.0)
    world.watch(9)
    return pod


def test_promise_09_with_nowhere_to_go_the_pod_is_stopped_before_maintenance_and_waits(world):
    pod = left_with_nowhere_to_go(world)
    assert world.pod(pod).state == PodState.WAITING_FOR_CAPACITY
    (stop,) = operations(world, pod, OperationKind.STOP)
    assert (stop.cause, stop.state) == (Cause.MAINTENANCE, OperationState.SUCCEEDED)
    world.watch(90)
    assert world.pod(pod).state == PodState.WAITING_FOR_CAPACITY
    assert list(world.store.list_active(Machine)) == []
    world.alpha.has_stock = True
    until_running_elsewhere(world, pod, pod.machine_id, minutes=8)
    assert world.box.volume == {"work": "not saved"}
    (start,) = operations(world, pod, OperationKind.START)
    assert (start.cause, start.state) == (Cause.MAINTENANCE, OperationState.SUCCEEDED)
    check_at_rest(world, pod)


def test_a_pod_that_waits_after_maintenance_can_be_called_off(world):
    pod = left_with_nowhere_to_go(world)
    (move,) = [o for o in operations(world, pod, OperationKind.MOVE) if o.is_active]
    world.app.cancel_operation.ask(world.account.id, move.id)
    world.watch(10)
    seen = world.pod(pod)
    assert (seen.state, seen.desired) == (PodState.STOPPED, Desired.STOPPED)
    world.alpha.has_stock = True
    world.watch(30)
    assert world.pod(pod).state == PodState.STOPPED
    check_at_rest(world, pod)


def test_promise_14_when_the_wait_is_over_the_pod_is_stopped_and_says_why(world):
    pod = left_with_nowhere_to_go(world)
    for _ in range(50):
        world.run(3600)
    seen = world.pod(pod)
    assert (seen.state, seen.last_error.code) == (PodState.STOPPED, "no_capacity")
    check_at_rest(world, pod)
    world.alpha.has_stock = True
    world.start(pod)
    assert world.box.volume == {"work": "not saved"}


def test_a_pod_that_is_not_to_start_by_itself_is_only_stopped_before_maintenance(world):
    pod = saved_pod(world)
    change = PodChange(on_reclaim=OnReclaim.STOP)
    world.app.change_pod.change(world.account.id, pod.id, change, revision=None)
    announce(world, world.box, NoticeKind.MAINTENANCE, 3600.0)
    world.watch(10)
    assert world.pod(pod).state == PodState.STOPPED
    (stop,) = operations(world, pod, OperationKind.STOP)
    assert stop.cause == Cause.MAINTENANCE
    check_at_rest(world, pod)


def test_a_wait_that_lasts_is_carried_on_by_another_execution(world):
    pod = left_with_nowhere_to_go(world)
    world.engine.kill_all()
    world.alpha.has_stock = True
    until_running_elsewhere(world, pod, pod.machine_id, minutes=15)
    assert world.box.volume == {"work": "not saved"}
    check_at_rest(world, pod)


def test_promise_02_a_pod_that_cannot_be_captured_is_not_brought_to_rest_again_and_again(world):
    pod = saved_pod(world)
    world.box.fails[CommandKind.CAPTURE] = 10**6
    announce(world, world.box, NoticeKind.MAINTENANCE, 3600.0)
    world.watch(60)
    assert world.pod(pod).machine_id == pod.machine_id
    assert world.box.done.count(CommandKind.QUIESCE) == MOST_TRIES
    assert not world.box.is_paused


def test_a_user_who_stops_the_pod_at_the_same_time_comes_first(world):
    pod = saved_pod(world)
    announce(world, world.box, NoticeKind.MAINTENANCE, 3600.0)
    operation = world.app.stop_pod.ask(
        world.account.id, pod.id, accept_loss=False, cause=Cause.USER
    )
    world.sweep()
    world.watch(5)
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert operations(world, pod, OperationKind.MOVE) == []
