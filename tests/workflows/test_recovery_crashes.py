"""A recovery that is cut off, repeated or overtaken at any of its writes."""

import pytest
from crashing_store import Crash
from invariants import check_at_rest
from recovery_scenes import recoveries, saved_pod, silence, take_away
from world import World

from podferry.domain.ghost import Ghost
from podferry.domain.machine import Machine, NoticeKind
from podferry.domain.pod import PodState
from podferry.ports.gpu_cloud import ViewState
from podferry.services.agent.notice import Announcement


def recovering(world):
    """A pod whose machine has just gone; from here on commits are counted."""
    pod = saved_pod(world)
    take_away(world)
    world.store.commits = 0
    return pod


def commits_of_a_recovery():
    world = World()
    recovering(world)
    world.watch(6)
    return world.store.commits


COMMITS = commits_of_a_recovery()


@pytest.mark.parametrize("after_writing", [False, True])
@pytest.mark.parametrize("number", range(1, COMMITS + 1))
def test_promise_10_a_crash_at_any_commit_of_a_recovery_heals(world, number, after_writing):
    pod = recovering(world)
    world.store.crash_at, world.store.crash_after_writing = number, after_writing
    world.watch(12)
    assert world.crashes == 1
    assert world.pod(pod).state == PodState.RUNNING
    assert world.box.volume == {"work": "saved"}
    assert len(recoveries(world, pod)) == 1
    check_at_rest(world, pod)


@pytest.mark.parametrize("number", range(1, COMMITS + 1))
def test_promise_10_a_sweep_between_the_reads_and_a_write_of_a_recovery_changes_nothing(
    world, number
):
    pod = recovering(world)
    left = [number]

    def sweep():
        left[0] -= 1
        if left[0] == 0:
            world.sweep()

    world.store.before_commit = sweep
    world.watch(8)
    assert left[0] <= 0
    assert len(recoveries(world, pod)) == 1
    assert world.pod(pod).state == PodState.RUNNING
    check_at_rest(world, pod)


def test_promise_10_every_commit_of_a_recovery_may_be_refused_first(world):
    pod = recovering(world)
    world.store.conflicts = 2
    world.watch(10)
    assert world.pod(pod).state == PodState.RUNNING
    assert world.box.volume == {"work": "saved"}
    world.store.conflicts = 0
    check_at_rest(world, pod)


def test_a_word_of_the_agent_between_the_look_and_the_write_keeps_the_machine(world):
    pod = saved_pod(world)
    box = world.box
    silence(box)
    box.cloud.words[box.provider_id] = (ViewState.GONE, "terminated")
    look, spoken = box.cloud.get, []

    def speak():
        world.store.before_commit = lambda: None
        spoken.append(True)
        box.is_dead = False
        box.beat()

    def get(provider_id):
        if not spoken:
            world.store.before_commit = speak
        return look(provider_id)

    box.cloud.get = get
    world.watch(5)
    assert spoken
    assert recoveries(world, pod) == []
    assert world.pod(pod).machine_id == pod.machine_id


def test_a_recovery_whose_workflow_was_never_started_is_started(world):
    pod = recovering(world)
    start = world.workflows.start

    def die(*_):
        world.workflows.start = start
        raise Crash

    world.workflows.start = die
    world.watch(8)
    assert world.crashes == 1
    assert world.pod(pod).state == PodState.RUNNING
    check_at_rest(world, pod)


@pytest.mark.parametrize("after_writing", [False, True])
@pytest.mark.parametrize("number", range(1, 12))
def test_promise_10_a_crash_at_any_commit_of_leaving_before_maintenance_heals(
    world, number, after_writing
):
    pod = saved_pod(world)
    machine = world.machine(pod)
    principal = world.app.identify.who(world.box.token)
    _announce_maintenance(world, principal)
    world.store.commits = 0
    world.store.crash_at, world.store.crash_after_writing = number, after_writing
    world.watch(15)
    assert world.crashes == 1
    seen = world.pod(pod)
    assert (seen.state, seen.machine_id != machine.id) == (PodState.RUNNING, True)
    assert world.box.volume == {"work": "not saved"}
    check_at_rest(world, pod)


def _announce_maintenance(world, principal):
    said = Announcement(kind=NoticeKind.MAINTENANCE, source="test")
    world.app.take_notice.take(principal, said)


def test_nothing_of_a_recovery_is_left_active(world):
    pod = recovering(world)
    world.watch(8)
    assert len(list(world.store.list_active(Machine))) == 1
    assert list(world.store.list_active(Ghost)) == []
    world.stop(pod)
    check_at_rest(world, pod)
    assert not world.schedules.is_enabled
