"""A save that is cut off, repeated or overtaken at any of its writes."""

import pytest
from crashing_store import Crash
from invariants import check_at_rest, rows
from saving_scenes import saved_each_minute
from scenes import DATA, ask
from world import World

from podferry.domain.errors import ConflictError
from podferry.domain.operation import Operation, OperationKind, OperationState
from podferry.domain.pod import PodState
from podferry.domain.snapshot import Snapshot, SnapshotState

UNFINISHED = {SnapshotState.OPEN, SnapshotState.CAPTURED}


def pod_with_work(world):
    pod = saved_each_minute(world, 0.2)
    world.store.commits = 0
    return pod


def ask_save(world, pod):
    try:
        world.app.save_pod.ask(world.account.id, pod.id, "mine")
    except Crash:
        world.crashes += 1


def saved_life(world, pod):
    """One save that a user asks for, and background saves before and after it."""
    world.live(1)
    ask_save(world, pod)
    world.live(1.5)


def commits_of_a_life():
    world = World()
    saved_life(world, pod_with_work(world))
    return world.store.commits


COMMITS = commits_of_a_life()


def check_saves(world, pod):
    """The head is the newest save, it can be restored, and nothing is left half done."""
    volume = world.volume(pod)
    assert volume.saving.open_id is None
    listed = rows(world, Snapshot, volume.id)
    assert [s.id for s in listed if s.state in UNFINISHED] == []
    assert volume.head == next(s.id for s in listed if s.state == SnapshotState.COMMITTED)
    for operation in rows(world, Operation, pod.id):
        assert operation.state != OperationState.RUNNING
    world.stop(pod)
    world.start(pod)
    assert world.box.volume == DATA
    check_at_rest(world, pod)


@pytest.mark.parametrize("after_writing", [False, True])
@pytest.mark.parametrize("number", range(1, COMMITS + 1))
def test_promise_10_a_crash_at_any_commit_of_a_save_heals(world, number, after_writing):
    pod = pod_with_work(world)
    world.store.crash_at = number
    world.store.crash_after_writing = after_writing
    saved_life(world, pod)
    assert world.crashes == 1
    check_saves(world, pod)


def one_save(world, pod):
    ask_save(world, pod)
    world.live(0.4)


def writes_of_a_save():
    world = World()
    pod = pod_with_work(world)
    one_save(world, pod)
    return world.store.commits


WRITES = writes_of_a_save()


def at_write(world, number, do):
    """Do it when the write of this number is about to happen."""
    seen = [0]

    def hook():
        seen[0] += 1
        if seen[0] == number + 1:
            world.store.before_commit = lambda: None
            do()

    world.store.before_commit = hook


@pytest.mark.parametrize("number", range(WRITES))
def test_promise_09_a_stop_in_the_middle_of_any_write_of_a_save_wins(world, number):
    pod = pod_with_work(world)
    stops = []

    def stop():
        stops.append(ask(world, pod, "stop"))
        world.run()

    at_write(world, number, stop)
    try:
        one_save(world, pod)
    except ConflictError:
        # The pod was stopped between the look and the write.
        assert world.pod(pod).state == PodState.STOPPED
    world.live(0.4)
    assert [world.operation(stop).state for stop in stops] == [OperationState.SUCCEEDED]
    head = world.snapshot(world.volume(pod).head)
    assert head.operation_id == stops[0].id
    asked = [o for o in rows(world, Operation, pod.id) if o.kind == OperationKind.SAVE]
    assert all(o.state != OperationState.RUNNING for o in asked)
    check_at_rest(world, pod)
    world.start(pod)
    assert world.box.volume == DATA


@pytest.mark.parametrize("number", range(WRITES))
def test_promise_10_a_save_that_everybody_begins_at_once_is_one_save(world, number):
    """The agent asks and the schedule comes round between the reads and the write of a save."""
    pod = pod_with_work(world)
    world.live(0.7)
    who = world.app.identify.who(world.box.token)

    def both():
        world.app.ask_save.ask(who)
        world.autosave()

    at_write(world, number, both)
    one_save(world, pod)
    world.live(1.5)
    check_saves(world, pod)
