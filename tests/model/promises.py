"""The promises P1 to P10 as far as this model can see them, each check named for its promise.

A check gets the world and what it is about, and fails with an `AssertionError`. Checks of changes
see each row as it was and as it is after every single commit.
"""

from typing import TYPE_CHECKING, Any

from podferry.domain.command import ENDED, Command, CommandKind
from podferry.domain.machine import FINAL_STATES, Clearance, Machine, MachineState
from podferry.domain.operation import STARTS, Operation, OperationKind, OperationState
from podferry.domain.pod import Pod, PodState
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState
from podferry.domain.state_word import SILENCE, StateWord
from podferry.domain.volume import Volume
from podferry.ports.gpu_cloud import LaunchRequest, ViewState

if TYPE_CHECKING:
    from witness import WatchedBox, WatchedWorld

SHORTEST_SILENCE = 15.0
"""Seconds without a word before which no machine may count as lost (20, less a pulse's grain)."""
LONGEST_INTERVAL = 300
"""Seconds between two saves, of any pod of this model."""
SAVE_SLACK = 90
"""Seconds: a round of the schedule each minute, and a beat at rest each ten seconds."""
RUNS = {ViewState.STARTING, ViewState.STARTING}


# P1: a machine is given up only with its data safe


def promise_01_a_machine_is_cleared_only_with_its_data_safe(
    world: "WatchedWorld", old: Machine | None, new: Machine
) -> None:
    box = world.box_of(new)
    is_lost = new.state == MachineState.LOST and (old is None or old.state != MachineState.LOST)
    is_cleared = new.clearance is not None and (old is None or old.clearance is None)
    if box is None or not (is_lost or is_cleared):
        return
    if is_lost or new.clearance in {Clearance.PROVEN_GONE, Clearance.DECLARED_LOST}:
        assert box.may_go or is_believed_lost(world, box), f"{new.id} is {new.clearance}"
        box.may_go = "lost"
    elif new.clearance == Clearance.LOSS_ACCEPTED:
        _check_accepted(world, box, new)
        box.may_go = "accepted"
    else:
        left = world.unsaved(box)
        assert not left, f"{new.id} is cleared as {new.clearance} and has unsaved {left}"


def is_believed_lost(world: "WatchedWorld", box: "WatchedBox") -> bool:
    """Its agent is silent, and its provider has not just said that it runs."""
    is_silent = world.seconds - box.spoke_at >= SHORTEST_SILENCE
    return box.is_gone or (is_silent and box.last_word not in RUNS)


def _check_accepted(world: "WatchedWorld", box: "WatchedBox", machine: Machine) -> None:
    operation = world.known(Operation, world.known(Pod, machine.pod_id).operation_id)
    assert operation.id in world.accepted, f"nobody accepted the loss of {machine.id}"
    for kind in world.unsaved(box):
        assert any(kind in line for line in operation.lost), f"{kind} is not named as lost"


def promise_01_no_machine_ends_with_unsaved_data(world: "WatchedWorld", box: "WatchedBox") -> None:
    left = world.unsaved(box)
    assert box.may_go or not left, f"{box.machine_id} is ended and has unsaved {left}"


# P2: a stop that fails keeps its machine


def promise_02_a_stop_that_fails_keeps_its_machine(
    world: "WatchedWorld", old: Pod | None, new: Pod
) -> None:
    if old is None or (old.state, new.state) != (PodState.STOPPING, PodState.RUNNING):
        return
    machine = world.known(Machine, new.machine_id)
    assert machine.clearance is None, f"{new.id} runs on {machine.id}, which is cleared"
    assert machine.state == MachineState.READY or machine.state in FINAL_STATES
    stop = world.known(Operation, old.operation_id)
    assert stop.state in {OperationState.FAILED, OperationState.CANCELLED}
    assert stop.is_cancel_asked or new.last_error is not None


# P3: gone means proven gone


def promise_03_gone_means_proven_gone(
    world: "WatchedWorld", old: Machine | None, new: Machine
) -> None:
    if new.state not in FINAL_STATES or (old is not None and old.state in FINAL_STATES):
        return
    for box in world.boxes_of(new):
        listings = box.omitted_at
        is_missing_twice = len(listings) > 1 and listings[-1] - listings[0] >= 1
        assert box.is_gone or box.said_gone or is_missing_twice, (
            f"{new.id} is {new.state} and {box.provider_id} stands"
        )


# P4: one create, one machine


def promise_04_the_intent_is_written_first(world: "WatchedWorld", request: LaunchRequest) -> None:
    written = [m for m in world.of(Machine) if m.stamp == request.stamp]
    assert [m.state for m in written] == [MachineState.REQUESTED], "no intent, or not this one"
    assert world.known(Pod, written[0].pod_id).machine_id == written[0].id


def promise_04_one_create_for_one_intent(world: "WatchedWorld", request: LaunchRequest) -> None:
    assert world.creates[request.stamp] == 1, f"{request.stamp} is created again"


def promise_04_at_most_one_living_machine_for_each_intent(world: "WatchedWorld") -> None:
    for machine in world.of(Machine):
        standing = [b for b in world.boxes_of(machine) if not (b.is_gone or b.is_twin)]
        assert len(standing) <= 1, f"{machine.id} has {len(standing)} machines"


# P5: one writer


def promise_05_only_the_holder_moves_the_head(
    world: "WatchedWorld", old: Volume | None, new: Volume
) -> None:
    if old is None:
        return
    assert old.epoch <= new.epoch <= old.epoch + 1, f"{new.id}: epoch {old.epoch} to {new.epoch}"
    if old.head == new.head:
        return
    save = world.known(Snapshot, new.head)
    assert save is not None, f"{new.id}: head {old.head} becomes {new.head}"
    assert (save.kind, save.subject_id) == (SnapshotKind.VOLUME, new.id)
    assert save.epoch == old.epoch == new.epoch, f"{new.id} is moved by a stale machine"
    assert old.lease is not None
    assert old.lease.machine_id == save.machine_id, f"{new.id} is moved by who does not hold it"
    assert save.parent_id in {old.head, None}, "the history has a branch"
    _check_successor(world, old.head, save)


def promise_05_the_environment_moves_with_its_machine(
    world: "WatchedWorld", old: Pod | None, new: Pod
) -> None:
    if old is None or old.environment_head == new.environment_head:
        return
    capture = world.known(Snapshot, new.environment_head)
    assert capture is not None, f"{new.id}: environment {old.environment_head} is forgotten"
    assert (capture.subject_id, capture.machine_id) == (new.environment_id, old.machine_id)
    _check_successor(world, old.environment_head, capture)


def _check_successor(world: "WatchedWorld", before: str | None, after: Snapshot) -> None:
    """A head is committed, has all that the one before it had, and what is on its machine."""
    assert after.state == SnapshotState.COMMITTED
    tree = world.saved(after.id)
    missing = set(world.saved(before)) - set(tree)
    assert not missing, f"{after.id} has lost {missing}"
    box = world.box_of(world.known(Machine, after.machine_id))
    assert box is not None
    assert tree.items() <= box.tree(after.kind).items(), f"{after.id} is not of its machine"


def promise_05_one_machine_holds_a_volume(world: "WatchedWorld") -> None:
    writers: dict[str, str] = {}
    for machine in world.of(Machine):
        volume = world.known(Volume, world.known(Pod, machine.pod_id).volume_id)
        is_at_work = machine.state in {MachineState.READY, MachineState.DRAINING}
        if is_at_work and machine.epoch == volume.epoch:
            assert volume.id not in writers, f"{volume.id} has two writers"
            writers[volume.id] = machine.id
            assert volume.lease is not None
            assert volume.lease.machine_id == machine.id


# P6 and P7: running means usable, and never empty


def promise_06_running_means_usable(world: "WatchedWorld", old: Pod | None, new: Pod) -> None:
    if new.state != PodState.RUNNING or (old is not None and old.state != PodState.RESTORING):
        return
    box = world.box_of(world.known(Machine, new.machine_id))
    assert box is not None
    assert box.token is not None, f"{box.machine_id} has not registered"
    assert CommandKind.RUN in box.done, f"{box.machine_id} has not run the pod"


def promise_07_no_pod_starts_without_what_was_saved(
    world: "WatchedWorld", old: Pod | None, new: Pod
) -> None:
    if new.state != PodState.RUNNING or (old is not None and old.state != PodState.RESTORING):
        return
    box = world.box_of(world.known(Machine, new.machine_id))
    assert box is not None
    for kind, head in world.heads(new).items():
        missing = set(world.saved(head)) - set(box.tree(kind))
        assert not missing, f"{new.id} runs without {missing} of its {kind}"


def promise_06_the_word_running_is_true(world: "WatchedWorld") -> None:
    now = world.clock.now()
    for pod in world.of(Pod):
        shown = world.app.browse.running_part(world.pod(pod)).word(now)
        if shown != StateWord.RUNNING:
            continue
        box = world.box_of(world.known(Machine, pod.machine_id))
        assert box is not None, f"{pod.id} is said to run and has no machine"
        silence = world.seconds - max(box.spoke_at, world.since(pod.started_at))
        assert silence <= SILENCE.total_seconds(), f"{pod.id} is said to run, and is silent"


# P8: lose at most the interval


def promise_08_what_is_older_than_the_interval_is_saved(world: "WatchedWorld") -> None:
    """Where nothing has gone wrong for two intervals and some time."""
    if world.is_troubled():
        world.troubled_at = world.seconds
    for pod in world.of(Pod):
        machine = world.known(Machine, pod.machine_id)
        box = world.box_of(machine)
        calm_for = world.seconds - max(world.troubled_at, world.since(pod.started_at))
        if pod.state != PodState.RUNNING or pod.operation_id is not None or box is None:
            continue
        if calm_for < 2 * LONGEST_INTERVAL + SAVE_SLACK or box.is_gone or machine.ready_at is None:
            continue
        due = world.seconds - LONGEST_INTERVAL - SAVE_SLACK
        old = {path for path, at in box.written[SnapshotKind.VOLUME].items() if at < due}
        missing = old - set(world.saved(world.heads(pod)[SnapshotKind.VOLUME]))
        assert not missing, f"{pod.id} has not saved {missing} in time"


# P9: every stop is the same stop


def promise_09_every_stop_is_the_same_stop(
    world: "WatchedWorld", old: Operation | None, new: Operation
) -> None:
    ends_well = new.state == OperationState.SUCCEEDED and (old is None or old.state != new.state)
    if new.kind != OperationKind.STOP or not ends_well:
        return
    assert new.is_point_of_no_return, f"{new.id} has committed nothing"
    if new.lost:
        return
    steps = {world.known(Command, command).step for command in new.commands}
    assert {"quiesce", "capture-environment", "capture-volume"} <= steps, f"{new.cause}: {steps}"
    assert new.is_verified
    assert len(new.snapshot_ids) == 2


def promise_09_there_are_three_ways_to_stopped(
    world: "WatchedWorld", old: Pod | None, new: Pod
) -> None:
    """A stop, a start that failed, and a loss."""
    if old is None or new.state != PodState.STOPPED or old.state == PodState.STOPPED:
        return
    if old.state == PodState.RUNNING:
        box = world.box_of(world.known(Machine, old.machine_id))
        assert box is None or box.may_go == "lost", f"{new.id} was stopped without a stop"
        return
    ended = world.known(Operation, old.operation_id)
    assert ended.state != OperationState.RUNNING
    kinds = {OperationKind.STOP} if old.state == PodState.STOPPING else STARTS
    assert ended.kind in kinds, f"{new.id} was {old.state} and stopped by a {ended.kind}"


# P10: what has ended stays as it is


def promise_10_an_ended_operation_stays(
    _: "WatchedWorld", old: Operation | None, new: Operation
) -> None:
    if old is not None and old.state != OperationState.RUNNING:
        ended = (old.state, old.result, old.error, old.ended_at)
        assert ended == (new.state, new.result, new.error, new.ended_at), f"{new.id} moved"


def promise_10_a_cancel_that_was_taken_wins(
    _: "WatchedWorld", old: Operation | None, new: Operation
) -> None:
    is_done = new.state == OperationState.SUCCEEDED
    assert not (is_done and new.is_cancel_asked), f"{new.id} was cancelled and went on"


def promise_10_an_ended_command_stays(_: "WatchedWorld", old: Command | None, new: Command) -> None:
    if old is not None and old.state in ENDED:
        ended = (old.state, old.result, old.error, old.ended_at)
        assert ended == (new.state, new.result, new.error, new.ended_at), f"{new.id} moved"


_NEXT = {
    SnapshotState.OPEN: {SnapshotState.CAPTURED, SnapshotState.ABANDONED},
    SnapshotState.CAPTURED: {SnapshotState.COMMITTED, SnapshotState.ABANDONED},
    SnapshotState.COMMITTED: {SnapshotState.DELETED},
    SnapshotState.ABANDONED: {SnapshotState.DELETED},
    SnapshotState.DELETED: set(),
}


def promise_10_a_snapshot_goes_one_way(
    _: "WatchedWorld", old: Snapshot | None, new: Snapshot
) -> None:
    if old is None:
        return
    assert new.state == old.state or new.state in _NEXT[old.state], f"{old.state} to {new.state}"
    if old.state == SnapshotState.COMMITTED:
        assert (old.root, old.parent_id, old.epoch) == (new.root, new.parent_id, new.epoch)


def promise_10_a_released_machine_stays(
    world: "WatchedWorld", old: Machine | None, new: Machine
) -> None:
    """One that was lost may come back; then it has to go."""
    if old is None or old.state not in FINAL_STATES or new.state == old.state:
        return
    came_back = (old.state, new.state) == (MachineState.LOST, MachineState.TERMINATING)
    assert came_back, f"{new.id} was {old.state} and is {new.state}"


def promise_10_each_operation_is_at_work_on_its_pod(world: "WatchedWorld") -> None:
    for operation in world.of(Operation):
        pod = world.known(Pod, operation.pod_id)
        at_work = world.known(Operation, pod.operation_id)
        is_named = at_work is not None and operation.id in {at_work.id, at_work.parent_id}
        is_aside = operation.kind in {OperationKind.SAVE, OperationKind.VERIFY}
        assert operation.state != OperationState.RUNNING or is_named or is_aside, operation.id
    for pod in world.of(Pod):
        at_work = world.known(Operation, pod.operation_id)
        assert at_work is None or at_work.state == OperationState.RUNNING, f"{pod.id} is stuck"


OF_CHANGES: dict[type[Any], tuple[Any, ...]] = {
    Machine: (
        promise_01_a_machine_is_cleared_only_with_its_data_safe,
        promise_03_gone_means_proven_gone,
        promise_10_a_released_machine_stays,
    ),
    Pod: (
        promise_02_a_stop_that_fails_keeps_its_machine,
        promise_05_the_environment_moves_with_its_machine,
        promise_06_running_means_usable,
        promise_07_no_pod_starts_without_what_was_saved,
        promise_09_there_are_three_ways_to_stopped,
    ),
    Volume: (promise_05_only_the_holder_moves_the_head,),
    Operation: (
        promise_09_every_stop_is_the_same_stop,
        promise_10_a_cancel_that_was_taken_wins,
        promise_10_an_ended_operation_stays,
    ),
    Command: (promise_10_an_ended_command_stays,),
    Snapshot: (promise_10_a_snapshot_goes_one_way,),
}
ALWAYS = (
    promise_04_at_most_one_living_machine_for_each_intent,
    promise_05_one_machine_holds_a_volume,
    promise_06_the_word_running_is_true,
    promise_08_what_is_older_than_the_interval_is_saved,
    promise_10_each_operation_is_at_work_on_its_pod,
)
