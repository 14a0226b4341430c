"""The gate of a stop and what hangs on it: captures, heads, commands, the schedule."""

from dataclasses import replace

import pytest
from asl import KilledError, StateError
from box import raise_failure
from invariants import check_at_rest, rows
from scenes import DATA, LAUNCH, STOP, ask, check_kept, once_at, prepared

from podferry.domain.command import CommandKind, CommandState
from podferry.domain.errors import ConflictError, EpochStaleError, WrongStateError
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause, OperationState
from podferry.domain.pod import PodState, RunSpec
from podferry.domain.snapshot import Snapshot, SnapshotState, StoredObject
from podferry.domain.use_of_volume import Attachment
from podferry.ports.store import Update
from podferry.services.pods import NewPod
from podferry.services.run_command import ExecRequest


def lossy_stop(world, pod):
    return world.app.stop_pod.ask(world.account.id, pod.id, accept_loss=True, cause=Cause.USER)


def test_promise_01_a_capture_that_arrives_after_its_loss_was_accepted_is_not_slipped_in(world):
    pod = prepared(world, "stop")
    assert world.stop(pod).state == OperationState.SUCCEEDED
    world.start(pod)
    head = world.volume(pod).head
    box = world.box
    box.hangs.add(CommandKind.CAPTURE)
    operation = lossy_stop(world, pod)
    refused = []

    def hand_in(_):
        root = StoredObject(name="root", size=3, sha256="0" * 64)
        for snapshot in rows(world, Snapshot, pod.volume_id):
            if snapshot.operation_id == operation.id:
                with pytest.raises(WrongStateError):
                    world.app.record_capture.commit(
                        world.app.identify.who(box.token), snapshot.id, root, {}
                    )
                refused.append(snapshot.id)

    once_at(world, "before_step", "CommitHeads", hand_in)
    world.run(until=lambda: "Capture" in world.visited(operation))
    box.is_dead = True
    world.settle()
    assert refused
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert world.volume(pod).head == head
    check_kept(world, pod)


def test_promise_01_heads_never_move_to_what_was_not_verified(world):
    pod = prepared(world, "stop")
    operation = ask(world, pod, "stop")
    once_at(world, "before_step", "VerifyCaptures", lambda o: world.step_again("CommitHeads", o))
    world.run(until=lambda: "CommitHeads" in world.visited(operation))
    world.settle()
    visited = world.visited(operation)
    assert visited.index("VerifyCaptures") < visited.index("CommitHeads")
    marks = [m.phase for m in world.operation(operation).milestones]
    assert marks.count("committed") == 1
    check_kept(world, pod)


def test_promise_01_captures_that_change_while_they_are_verified_are_not_committed(world):
    pod = prepared(world, "stop")
    operation = ask(world, pod, "stop")
    writes = []

    def change():
        writes.append(1)
        if len(writes) == 2:
            world.store.before_commit = lambda: None
            other = replace(world.operation(operation), volume_snapshot_id=None)
            world.store.commit(Update(other))

    def watch(_):
        world.store.before_commit = change

    once_at(world, "before_step", "VerifyCaptures", watch)
    world.settle()
    assert world.operation(operation).error["code"] == "snapshot_unverified"
    check_kept(world, pod)


def test_promise_01_a_capture_that_was_abandoned_after_its_proof_is_not_committed(world):
    pod = prepared(world, "stop")
    operation = ask(world, pod, "stop")

    def abandon(_):
        snapshot = world.snapshot(world.operation(operation).volume_snapshot_id)
        world.store.commit(Update(replace(snapshot, state=SnapshotState.ABANDONED)))

    once_at(world, "after_step", "VerifyCaptures", abandon)
    world.settle()
    assert world.operation(operation).error["code"] == "snapshot_unverified"
    check_kept(world, pod)


@pytest.mark.parametrize("accept_loss", [False, True])
def test_promise_07_a_store_that_blinks_after_the_commit_does_not_undo_it(world, accept_loss):
    pod = prepared(world, "stop")
    packs = []
    world.after_capture = lambda kind, snapshot, pack: packs.append(
        (kind, f"{world.account.id}/{snapshot}/{pack}")
    )
    operation = lossy_stop(world, pod) if accept_loss else ask(world, pod, "stop")
    kept = []

    def blink(_):
        for kind, key in packs:
            kept.append((kind, key, world.objects.read(kind, key)))
            world.objects.remove(kind, key)
        raise KilledError

    once_at(world, "after_step", "CommitHeads", blink)
    world.run()
    world.settle()
    for kind, key, body in kept:
        world.objects.put(kind, key, body)
    assert kept
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert world.operation(operation).result["lost"] == []
    check_kept(world, pod)


def test_promise_02_a_commit_that_comes_after_the_stop_turned_back_is_refused(world):
    def time_out(_):
        raise StateError("States.Timeout")

    pod = prepared(world, "stop")
    head = world.volume(pod).head
    operation = ask(world, pod, "stop")
    once_at(world, "before_step", "CommitHeads", time_out)
    once_at(world, "after_step", "AssessStop", lambda o: world.step_again("CommitHeads", o))
    world.settle()
    assert world.operation(operation).state == OperationState.FAILED
    assert world.volume(pod).head == head
    assert world.box.volume == DATA
    check_kept(world, pod)


@pytest.mark.parametrize("number", [0, 1])
def test_promise_01_a_commit_that_outlives_its_step_wins_over_the_way_back(world, number):
    pod = prepared(world, "stop")
    box = world.box
    operation = ask(world, pod, "stop")
    writes = []

    def commit_late():
        writes.append(1)
        if len(writes) == number + 1:
            world.store.before_commit = lambda: None
            world.step_again("CommitHeads", operation.id)

    def time_out(_):
        world.store.before_commit = commit_late
        raise StateError("States.Timeout")

    once_at(world, "before_step", "CommitHeads", time_out)
    world.settle()
    assert len(writes) == number + 1
    assert "AssessStop" in world.visited(operation)
    assert world.operation(operation).turned_back is None
    assert world.operation(operation).execution == 1
    assert CommandKind.RESUME not in box.done, "what it wrote from then on would be lost"
    assert world.operation(operation).state == OperationState.SUCCEEDED
    check_kept(world, pod)


def test_promise_01_steps_back_that_run_after_the_commit_are_refused(world):
    pod = prepared(world, "stop")
    box = world.box
    operation = ask(world, pod, "stop")

    def undo(_):
        for step in ("AssessStop", "ResumeMachine", "FailStop"):
            world.step_again(step, operation.id)
            world.idle(2)

    once_at(world, "after_step", "CommitHeads", undo)
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert CommandKind.RESUME not in box.done
    check_kept(world, pod)


def test_promise_02_a_capture_that_was_handed_in_and_failed_gives_way_to_the_next(world):
    pod = prepared(world, "stop")
    failed = []

    def fail_once(*captured):
        if not failed:
            failed.append(captured)
            raise_failure("agent_error")

    world.after_capture = fail_once
    operation = world.stop(pod)
    assert operation.state == OperationState.SUCCEEDED
    assert world.snapshot(failed[0][1]).state == SnapshotState.ABANDONED
    check_kept(world, pod)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_promise_02_a_stop_that_turned_back_is_not_weighed_again(world, is_cancelled):
    pod = prepared(world, "stop")
    world.box.fails[CommandKind.CAPTURE] = 9
    operation = lossy_stop(world, pod) if is_cancelled else ask(world, pod, "stop")

    def die(_):
        if is_cancelled:
            world.app.cancel_operation.ask(world.account.id, operation.id)
        raise KilledError

    once_at(world, "after_step", "Quiesce" if is_cancelled else "AssessStop", die)
    world.settle()
    world.box.fails.clear()
    ended = world.operation(operation)
    assert ended.state == (OperationState.CANCELLED if is_cancelled else OperationState.FAILED)
    assert ended.assessments == 0, "none since the execution was started again"
    assert ended.error["code"] == ("operation_cancelled" if is_cancelled else "agent_failed")
    check_kept(world, pod)


def test_a_machine_that_goes_a_moment_after_it_spoke_is_waited_out_and_counts_as_lost(world):
    pod = prepared(world, "stop")
    world.idle(60)
    box = world.box
    box.fails[CommandKind.CAPTURE] = 9
    operation = ask(world, pod, "stop")
    once_at(world, "before_step", "AssessStop", lambda _: setattr(box, "is_gone", True))
    world.settle()
    assert world.operation(operation).error["code"] == "machine_lost"
    check_at_rest(world, pod)


@pytest.mark.parametrize("kind", ["start", "stop"])
def test_promise_06_last_steps_that_run_before_their_time_are_refused(world, kind):
    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    last = {"start": ("FinishStart",), "stop": STOP[-4:]}[kind]
    order = {"start": LAUNCH, "stop": STOP}[kind]
    asked = []

    def too_early(step, operation_id):
        if operation_id != operation.id:
            return
        for late in last:
            if order.index(late) > order.index(step):
                world.step_again(late, operation_id)
                asked.append(late)

    world.before_step = too_early
    world.settle()
    assert set(asked) == set(last) or kind == "start"
    assert world.operation(operation).state == OperationState.SUCCEEDED
    marks = [m.phase for m in world.operation(operation).milestones]
    assert marks[-1] == ("ready" if kind == "start" else "released")
    if kind == "start":
        assert world.operation(operation).result["restore_volume"] == {"files": 1}
    check_kept(world, pod)


def test_promise_05_a_stop_of_a_machine_whose_epoch_has_passed_moves_no_head(world):
    pod = prepared(world, "stop")
    volume = world.volume(pod)

    def pass_by(_):
        world.store.commit(Update(replace(world.volume(pod), epoch=volume.epoch + 1)))

    once_at(world, "before_step", "CommitHeads", pass_by)
    operation = world.stop(pod)
    assert operation.error["code"] == EpochStaleError.code
    assert world.volume(pod).head == volume.head
    assert world.box.volume == DATA


def test_promise_05_a_volume_is_handed_from_a_deleted_pod_to_another(world):
    pod = prepared(world, "start")
    spec, wanted = RunSpec(image="debian:12"), Requirements(gpu_count=1)
    other, _ = world.app.create_pod.create(
        world.account.id,
        NewPod(
            name="other", spec=spec, requirements=wanted, volume=Attachment(volume_id=pod.volume_id)
        ),
    )
    with pytest.raises(ConflictError):
        world.start(pod)
    world.app.delete_pod.delete(world.account.id, pod.id)
    world.run()
    assert world.box.volume == DATA
    world.box.volume["more"] = "work"
    assert world.stop(other).state == OperationState.SUCCEEDED
    with pytest.raises(WrongStateError):
        world.start(pod)
    assert world.start(other).state == OperationState.SUCCEEDED
    assert world.box.volume == {**DATA, "more": "work"}


# Commands of users


def run(world, pod):
    return world.app.run_command.ask(world.account.id, pod.id, ExecRequest(argv=("true",)))


def test_a_command_is_not_taken_while_a_stop_begins(world):
    pod = world.launch()

    def stop():
        world.store.before_commit = lambda: None
        ask(world, pod, "stop")

    world.store.before_commit = stop
    with pytest.raises(ConflictError):
        run(world, pod)
    world.settle()
    check_at_rest(world, pod)


def test_a_command_that_waits_when_a_stop_begins_is_not_begun_and_ends_with_its_machine(world):
    pod = world.launch()
    box = world.box
    command = run(world, pod)
    assert world.stop(pod).state == OperationState.SUCCEEDED
    assert CommandKind.EXEC not in box.done
    ended = world.app.run_command.get(world.account.id, pod.id, command.id)
    assert ended.state == CommandState.FAILED
    assert ended.error["code"] == "machine_gone"


def test_a_command_that_waits_during_a_stop_that_fails_is_begun_afterwards(world):
    pod = world.launch()
    world.box.fails[CommandKind.CAPTURE] = 9
    command = run(world, pod)
    assert world.stop(pod).state == OperationState.FAILED
    for _ in range(10):
        world.box.beat()
    ended = world.app.run_command.get(world.account.id, pod.id, command.id)
    assert ended.state == CommandState.SUCCEEDED


# The reconciler


def test_promise_10_an_operation_that_cannot_be_looked_after_does_not_hold_up_the_others(world):
    first, second = prepared(world, "stop"), world.launch()
    world.engine.kill_all()
    sick, well = ask(world, first, "stop"), ask(world, second, "stop")
    world.engine.kill_all()
    status = world.workflows.status

    def partly(workflow, name):
        if name == sick.id:
            raise ConflictError("throttled")
        return status(workflow, name)

    world.workflows.status = partly
    assert world.app.reconcile.run() == {"restarted": 1}
    world.workflows.status = status
    world.settle()
    for operation in (sick, well):
        assert world.operation(operation).state == OperationState.SUCCEEDED


def test_promise_17_a_start_while_the_schedule_is_switched_off_switches_it_on(world):
    pod = prepared(world, "start")
    disable = world.schedules.disable

    def slow():
        world.schedules.disable = disable
        ask(world, pod, "start")
        disable()

    world.schedules.disable = slow
    world.reconcile()
    assert world.schedules.is_enabled
    world.settle()
    assert world.pod(pod).state == PodState.RUNNING


@pytest.mark.parametrize("kind", ["start", "stop"])
def test_promise_17_the_first_step_switches_the_schedule_on_once_more(world, kind):
    pod = prepared(world, kind)
    ask(world, pod, kind)
    first = {"start": LAUNCH, "stop": STOP}[kind][0]
    once_at(world, "before_step", first, lambda _: world.schedules.disable())
    world.run()
    assert world.schedules.is_enabled
