"""Stops: capture, verify, and only then give up."""

import pytest

from podferry.domain.command import CommandKind
from podferry.domain.errors import WrongStateError
from podferry.domain.machine import Clearance, Machine, MachineState
from podferry.domain.operation import Cause, Operation, OperationState
from podferry.domain.pod import PodState
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState, object_key


def test_promise_01_a_stop_gives_up_the_machine_only_after_verified_captures(world):
    pod = world.launch()
    world.box.volume = {"a": "1"}
    operation = world.stop(pod)
    assert operation.state == OperationState.SUCCEEDED
    visited = world.visited(operation)
    assert visited.index("VerifyCaptures") < visited.index("CommitHeads")
    assert visited.index("CommitHeads") < visited.index("GiveUpMachine")
    assert world.boxes() == []
    assert world.pod(pod).state == PodState.STOPPED
    (machine,) = world.store.list_owned(Machine, pod.id).items
    assert (machine.state, machine.clearance) == (
        MachineState.RELEASED,
        Clearance.CAPTURES_VERIFIED,
    )
    assert operation.result["volume"]["snapshot_id"] == world.volume(pod).head
    assert world.volume(pod).lease is None


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
@pytest.mark.parametrize("victim", ["pack", "root"])
@pytest.mark.parametrize("kind", list(SnapshotKind))
def test_promise_01_and_02_damage_between_capture_and_verify_keeps_the_machine(
    world, damage, victim, kind
):
    pod = world.launch()
    world.box.volume = {"a": "1"}

    def damage_it(captured, snapshot_id, pack):
        if captured != kind:
            return
        name = "root" if victim == "root" else pack
        key = object_key(world.account.id, snapshot_id, name)
        if damage == "missing":
            world.objects.remove(captured, key)
        else:
            world.objects.put(captured, key, b"y" + world.objects.read(captured, key)[1:])

    world.after_capture = damage_it
    operation = world.stop(pod)
    assert operation.state == OperationState.FAILED
    assert operation.error["code"] == "snapshot_unverified"
    assert "no capture of" not in operation.error["detail"], "there is one, and it is damaged"
    assert operation.lost == ()
    assert "GiveUpMachine" not in world.visited(operation)
    kept = world.pod(pod)
    assert kept.state == PodState.RUNNING
    assert kept.last_error.code == "snapshot_unverified"
    assert not world.box.is_paused, "the user's processes are resumed"
    assert world.machine(pod).state == MachineState.READY
    world.after_capture = lambda *_: None
    assert world.stop(pod).state == OperationState.SUCCEEDED


def test_promise_02_a_capture_that_fails_once_is_tried_again(world):
    pod = world.launch()
    world.box.fails[CommandKind.CAPTURE] = 1
    operation = world.stop(pod)
    assert operation.state == OperationState.SUCCEEDED
    snapshots = world.store.list_owned(Snapshot, pod.environment_id).items
    assert sorted(s.state for s in snapshots) == [
        SnapshotState.ABANDONED,
        SnapshotState.COMMITTED,
    ]


def test_promise_02_a_capture_that_keeps_failing_leaves_the_pod_running(world):
    pod = world.launch()
    world.box.fails[CommandKind.CAPTURE] = 9
    operation = world.stop(pod)
    assert operation.state == OperationState.FAILED
    assert world.pod(pod).state == PodState.RUNNING
    assert not world.box.is_paused


def test_promise_02_an_agent_that_falls_silent_during_capture_is_never_released(world):
    pod = world.launch()
    world.box.hangs.add(CommandKind.CAPTURE)
    operation = world.app.stop_pod.ask(
        world.account.id, pod.id, accept_loss=False, cause=Cause.USER
    )
    world.run(until=lambda: "Capture" in world.visited(operation))
    world.box.is_dead = True
    world.run()
    assert world.pod(pod).state == PodState.RUNNING
    assert len(world.boxes()) == 1
    assert world.operation(operation).error["code"] == "agent_silent"


def test_promise_01_accepting_the_loss_stops_the_pod_and_lists_what_is_lost(world):
    pod = world.launch()
    world.box.volume = {"a": "1"}
    world.stop(pod)
    head = world.volume(pod).head
    world.start(pod)
    world.box.fails[CommandKind.CAPTURE] = 9
    operation = world.stop(pod, accept_loss=True)
    assert operation.state == OperationState.SUCCEEDED
    assert len(operation.result["lost"]) == 2
    assert world.boxes() == []
    assert world.volume(pod).head == head
    assert world.start(pod).state == OperationState.SUCCEEDED
    assert world.box.volume == {"a": "1"}


def test_a_machine_proven_gone_during_a_stop_falls_back_to_the_committed_heads(world):
    pod = world.launch()
    world.box.volume = {"a": "1"}
    world.stop(pod)
    world.start(pod)
    world.box.volume = {"a": "2"}
    world.box.hangs.add(CommandKind.CAPTURE)
    operation = world.app.stop_pod.ask(
        world.account.id, pod.id, accept_loss=False, cause=Cause.USER
    )
    world.run(until=lambda: "Capture" in world.visited(operation))
    world.box.is_gone = True
    world.run()
    ended = world.operation(operation)
    assert ended.state == OperationState.FAILED
    assert ended.error["code"] == "machine_lost"
    assert ended.result["lost"]
    assert world.pod(pod).state == PodState.STOPPED
    world.start(pod)
    assert world.box.volume == {"a": "1"}


@pytest.mark.parametrize("switch", ["delete_fails", "delete_says_ok_but_stands"])
def test_promise_03_a_delete_that_fails_for_a_while_stays_terminating_then_gone(world, switch):
    pod = world.launch()
    setattr(world.alpha, switch, 4)
    operation = world.app.stop_pod.ask(
        world.account.id, pod.id, accept_loss=False, cause=Cause.USER
    )
    world.run(until=lambda: getattr(world.alpha, switch) == 2)
    assert world.machine(pod).state == MachineState.TERMINATING
    assert world.pod(pod).state == PodState.STOPPING
    assert len(world.boxes()) == 1
    world.run()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert world.boxes() == []


def test_promise_09_a_stop_of_a_stopped_pod_is_refused(world):
    pod = world.launch()
    world.stop(pod)
    with pytest.raises(WrongStateError):
        world.stop(pod)


def test_promise_09_a_stop_takes_the_same_steps_whoever_asks_for_it(world):
    pod = world.launch()
    by_user = world.stop(pod)
    world.start(pod)
    regardless = world.stop(pod, accept_loss=True)
    world.start(pod)
    move = world.move(pod, providers=("beta",))
    by_move = world.operation(world.row(Operation, move.halves[0]))
    assert by_move.kind == by_user.kind
    assert world.visited(by_user) == world.visited(regardless) == world.visited(by_move)


def test_a_cancelled_stop_leaves_the_pod_running(world):
    pod = world.launch()
    world.box.hangs.add(CommandKind.CAPTURE)
    operation = world.app.stop_pod.ask(
        world.account.id, pod.id, accept_loss=False, cause=Cause.USER
    )
    world.run(until=lambda: "Capture" in world.visited(operation))
    world.run(seconds=5)
    world.app.cancel_operation.ask(world.account.id, operation.id)
    world.run()
    assert world.operation(operation).state == OperationState.CANCELLED
    assert world.pod(pod).state == PodState.RUNNING
    assert not world.box.is_paused


def test_promise_05_a_machine_of_an_older_epoch_is_told_to_end_and_saves_nothing(world):
    pod = world.launch()
    old = world.box
    world.stop(pod)
    world.start(pod)
    head = world.volume(pod).head
    old.is_dead = False
    old.beat()
    assert old.was_told_to_end
    assert world.volume(pod).head == head


def test_case_s7_a_cycle_of_edits_comes_back_equal_five_times(world):
    pod = world.launch()
    for cycle in range(5):
        box = world.box
        box.environment[f"/opt/{cycle}"] = str(cycle)
        box.environment.pop("/etc/base", None)
        box.volume[f"f{cycle}"] = "new"
        box.volume.pop(f"f{cycle - 1}", None)
        expected = dict(box.environment), dict(box.volume)
        assert world.stop(pod).state == OperationState.SUCCEEDED
        assert world.start(pod).state == OperationState.SUCCEEDED
        assert (world.box.environment, world.box.volume) == expected


def test_case_r7_the_pod_keeps_its_id_and_only_the_machine_changes(world):
    pod = world.launch()
    first = world.machine(pod)
    operation = world.move(pod, providers=("beta",))
    assert operation.state == OperationState.SUCCEEDED
    second = world.machine(pod)
    assert second.id != first.id
    assert second.epoch > first.epoch
    assert world.alpha.standing() == []
    assert len(world.beta.standing()) == 1
    assert world.pod(pod).operation_id is None


def test_a_move_without_a_target_does_not_touch_the_old_machine(world):
    pod = world.launch()
    world.beta.has_stock = False
    operation = world.move(pod, providers=("beta",))
    assert operation.state == OperationState.FAILED
    assert operation.error["code"] == "no_capacity"
    assert world.pod(pod).state == PodState.RUNNING
    assert len(world.alpha.standing()) == 1
    assert "StopHalf" not in world.visited(operation)


def test_a_move_whose_start_fails_leaves_the_pod_stopped_with_its_data(world):
    pod = world.launch()
    world.box.volume = {"a": "1"}
    world.beta.boot_never = 99
    operation = world.move(pod, providers=("beta",))
    assert operation.state == OperationState.FAILED
    assert world.pod(pod).state == PodState.STOPPED
    assert world.boxes() == []
    world.start(pod)
    assert world.box.volume == {"a": "1"}
