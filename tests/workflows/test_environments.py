"""Environments as numbered versions: kept, launched from, gone back to, deleted."""

from contextlib import suppress
from datetime import timedelta

import pytest
from crashing_store import Crash
from invariants import check_at_rest, check_data, rows
from saving_scenes import collect
from scenes import DATA

from podferry.domain.errors import ConflictError, NotFoundError, WrongStateError
from podferry.domain.offer import Requirements
from podferry.domain.operation import OperationState
from podferry.domain.pod import Pod, PodState, RunSpec
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState
from podferry.domain.version import Version
from podferry.domain.volume import Environment, VersionRef
from podferry.services.environments.roll_back import Target
from podferry.services.pods import NewPod, PodChange

TOOL = "/opt/tool"


def installed(world, pod, tool):
    """The pod, stopped after it was given another tool."""
    if world.pod(pod).state == PodState.STOPPED:
        world.start(pod)
    world.box.environment[TOOL] = tool
    world.stop(pod)
    return world.pod(pod)


def a_pod(world, *tools):
    """A stopped pod with data; each tool was kept as a version."""
    pod = world.launch()
    world.box.volume = dict(DATA)
    for tool in tools:
        pod = installed(world, pod, tool)
        keep(world, pod)
    return world.pod(pod)


def keep(world, pod, note=None, snapshot_id=None):
    return world.app.keep_pod.keep(world.account.id, pod.id, note, snapshot_id)


def launch_from(world, pod, number):
    """A new pod that begins as a version of the other one's environment."""
    new, _ = world.app.create_pod.create(
        world.account.id,
        NewPod(
            name="second",
            spec=RunSpec(image=""),
            requirements=Requirements(gpu_count=1),
            version=VersionRef(environment_id=pod.environment_id, number=number),
        ),
    )
    world.run()
    return world.pod(new)


def go_back(world, pod, **target):
    return world.app.roll_back.to(world.account.id, pod.id, Target(**target))


def delete_environment(world, pod):
    world.app.delete_pod.delete(world.account.id, pod.id)
    world.app.change_environment.delete(world.account.id, pod.environment_id)


def environment_of(world, pod):
    return world.store.get(Environment, pod.environment_id)


def numbers(world, pod):
    return sorted(version.number for version in rows(world, Version, pod.environment_id))


def objects_below(world, snapshot_id):
    prefix = f"{world.account.id}/{snapshot_id}/"
    return [k for k in world.objects.keys(SnapshotKind.ENVIRONMENT) if k.startswith(prefix)]


def test_a_stopped_pod_is_kept_as_the_next_version(world):
    pod = installed(world, world.launch(), "one")
    kept = keep(world, pod, "works")
    version = kept.version
    assert (kept.is_new, version.number, version.note) == (True, 1, "works")
    assert (version.snapshot_id, version.pod_id) == (pod.environment_head, pod.id)
    assert version.image == "debian:12"
    assert version.size_bytes == world.snapshot(pod.environment_head).size_bytes > 0
    pod = installed(world, pod, "two")
    assert keep(world, pod).version.number == 2
    assert environment_of(world, pod).versions == 2
    assert "environment.kept" in world.events(pod)
    check_at_rest(world, pod)


def test_promise_10_a_state_is_kept_once_however_often_it_is_asked_for(world):
    pod = a_pod(world, "one")
    again = keep(world, pod, "again")
    assert (again.is_new, again.version.number, again.version.note) == (False, 1, None)
    assert numbers(world, pod) == [1]


def test_a_capture_with_the_content_of_the_newest_version_is_that_version(world):
    pod = a_pod(world, "one")
    first = pod.environment_head
    pod = installed(world, pod, "one")
    assert pod.environment_head != first
    assert keep(world, pod).version.number == 1
    pod = installed(world, pod, "two")
    assert keep(world, pod).version.number == 2


def test_what_runs_is_not_kept_but_an_earlier_capture_can_be_meanwhile(world):
    pod = installed(world, world.launch(), "one")
    world.start(pod)
    world.box.environment[TOOL] = "unsaved"
    with pytest.raises(WrongStateError, match="Stop it"):
        keep(world, pod)
    kept = keep(world, pod, snapshot_id=pod.environment_head)
    assert kept.version.snapshot_id == pod.environment_head
    assert world.box.environment[TOOL] == "unsaved"


def test_there_is_nothing_to_keep_before_the_first_stop(world):
    pod = world.launch()
    with pytest.raises(WrongStateError):
        keep(world, pod)
    new, _ = world.app.create_pod.create(
        world.account.id,
        NewPod(
            name="never started",
            spec=RunSpec(image="debian:12"),
            requirements=Requirements(),
            start=False,
        ),
    )
    with pytest.raises(WrongStateError, match="never captured"):
        keep(world, new)


def test_a_capture_of_another_environment_cannot_be_kept(world):
    pod, other = a_pod(world, "one"), a_pod(world, "two")
    with pytest.raises(NotFoundError):
        keep(world, pod, snapshot_id=other.environment_head)


@pytest.mark.parametrize("after_writing", [False, True])
def test_promise_10_a_keep_that_died_and_is_repeated_makes_one_version(world, after_writing):
    pod = installed(world, world.launch(), "one")
    world.store.crash_at = world.store.commits + 1
    world.store.crash_after_writing = after_writing
    with suppress(Crash):
        keep(world, pod)
    world.store.crash_at = None
    assert keep(world, pod).is_new is not after_writing
    assert numbers(world, pod) == [1]


def test_two_keeps_at_the_same_moment_make_one_version(world):
    pod = installed(world, world.launch(), "one")

    def other():
        world.store.before_commit = lambda: None
        assert keep(world, pod, "the faster one").is_new

    world.store.before_commit = other
    slower = keep(world, pod, "the slower one")
    assert (slower.is_new, slower.version.note) == (False, "the faster one")
    assert numbers(world, pod) == [1]


def test_a_version_is_kept_while_younger_captures_expire(world):
    pod = a_pod(world, "one")
    kept = pod.environment_head
    passing = [installed(world, pod, f"passing {i}").environment_head for i in range(6)]
    collect(world, days=20)
    assert world.snapshot(kept).expired_at is None
    assert world.store.find(Snapshot, passing[0]) is None
    go_back(world, pod, version=1)
    check_data(world, pod, DATA, "one")


def test_a_capture_that_is_kept_while_it_is_thinned_out_stays(world):
    """The collector has chosen it already when its user keeps it."""
    pod = installed(world, world.launch(), "first")
    first = pod.environment_head
    pod = installed(world, pod, "one")
    kept = pod.environment_head
    for i in range(6):
        pod = installed(world, pod, f"passing {i}")
    world.clock.advance(timedelta(days=20))

    def keep_second():
        if world.snapshot(first).expired_at is not None:
            world.store.before_commit = lambda: None
            keep(world, pod, snapshot_id=kept)

    world.store.before_commit = keep_second
    world.app.collect_garbage.run(lambda: True)
    assert world.snapshot(kept).version == 1
    assert world.snapshot(kept).expired_at is None
    collect(world, days=5)
    assert objects_below(world, kept)


def test_a_pod_is_launched_from_a_version_with_a_volume_of_its_own(world):
    first = a_pod(world, "one", "two")
    second = launch_from(world, first, 1)
    assert second.state == PodState.RUNNING
    assert world.box.environment[TOOL] == "one"
    assert world.box.volume == {}
    assert second.spec.image == "debian:12"
    assert world.box.request.image == second.base.pinned == first.base.pinned
    assert second.environment_id != first.environment_id
    assert second.volume_id != first.volume_id
    made_from = environment_of(world, second).made_from
    assert made_from == VersionRef(environment_id=first.environment_id, number=1)
    check_at_rest(world, second)


def test_what_was_launched_from_a_version_has_versions_of_its_own(world):
    first = a_pod(world, "one")
    second = launch_from(world, first, 1)
    second = installed(world, second, "other")
    assert keep(world, second).version.number == 1
    assert numbers(world, first) == numbers(world, second) == [1]
    world.start(first)
    assert world.box.environment[TOOL] == "one"


def test_before_its_first_stop_a_launched_environment_has_nothing_of_its_own(world):
    first = a_pod(world, "one")
    second, _ = world.app.create_pod.create(
        world.account.id,
        NewPod(
            name="second",
            spec=RunSpec(image=""),
            requirements=Requirements(),
            version=VersionRef(environment_id=first.environment_id, number=1),
            start=False,
        ),
    )
    with pytest.raises(WrongStateError, match="nothing of its own"):
        keep(world, second)


def test_promise_07_a_launch_from_a_version_whose_data_is_missing_fails(world):
    first = a_pod(world, "one")
    for key in objects_below(world, first.environment_head):
        world.objects.remove(SnapshotKind.ENVIRONMENT, key)
    second = launch_from(world, first, 1)
    assert second.state == PodState.STOPPED
    assert second.last_error.code == "snapshot_missing"
    assert world.boxes() == []


def test_case_s1_a_version_that_is_not_there_is_never_replaced_by_an_empty_environment(world):
    first = a_pod(world, "one")
    with pytest.raises(NotFoundError, match="version 2"):
        launch_from(world, first, 2)
    assert len(world.pods()) == 1


def test_going_back_makes_the_next_start_restore_the_version(world):
    pod = a_pod(world, "one", "two")
    assert go_back(world, pod, version=1).environment_head != pod.environment_head
    check_data(world, pod, DATA, "one")
    check_at_rest(world, pod)


def test_going_back_keeps_the_state_before_it_as_a_version(world):
    pod = installed(world, a_pod(world, "one"), "unkept")
    go_back(world, pod, version=1)
    assert numbers(world, pod) == [1, 2]
    collect(world, days=20)
    go_back(world, pod, version=2)
    check_data(world, pod, DATA, "unkept")


def test_promise_10_going_back_twice_is_going_back_once(world):
    pod = installed(world, a_pod(world, "one"), "two")
    go_back(world, pod, version=1)
    go_back(world, pod, version=1)
    assert numbers(world, pod) == [1, 2]
    assert world.events(pod).count("environment.rolled_back") == 1


def test_what_was_gone_back_to_is_still_the_version(world):
    pod = a_pod(world, "one", "two")
    go_back(world, pod, version=1)
    assert keep(world, pod).version.number == 1


def test_a_stop_after_going_back_builds_on_what_was_gone_back_to(world):
    pod = a_pod(world, "one", "two")
    go_back(world, pod, version=1)
    pod = installed(world, pod, "three")
    head = world.snapshot(pod.environment_head)
    assert head.parent_id == rows(world, Version, pod.environment_id)[-1].snapshot_id
    assert keep(world, pod).version.number == 3
    collect(world, days=9)
    for number, tool in ((1, "one"), (2, "two"), (3, "three")):
        launch_from(world, pod, number)
        assert world.boxes()[-1].environment[TOOL] == tool


def test_one_goes_back_to_a_capture_of_the_history_too(world):
    pod = installed(world, world.launch(), "one")
    capture = pod.environment_head
    pod = installed(world, pod, "two")
    go_back(world, pod, snapshot_id=capture)
    world.start(pod)
    assert world.box.environment[TOOL] == "one"


def test_only_a_stopped_pod_goes_back(world):
    pod = a_pod(world, "one", "two")
    world.start(pod)
    with pytest.raises(WrongStateError, match="stop it first"):
        go_back(world, pod, version=1)
    world.stop(pod)
    with pytest.raises(NotFoundError, match="version 7"):
        go_back(world, pod, version=7)


def test_an_environment_of_a_pod_is_not_deleted(world):
    pod = a_pod(world, "one")
    with pytest.raises(WrongStateError, match=pod.id):
        world.app.change_environment.delete(world.account.id, pod.environment_id)


def test_a_deleted_environment_is_freed_with_its_versions(world):
    pod = a_pod(world, "one", "two")
    captures = [s.id for s in rows(world, Snapshot, pod.environment_id)]
    delete_environment(world, pod)
    world.app.change_environment.delete(world.account.id, pod.environment_id)
    with pytest.raises(NotFoundError):
        launch_from(world, pod, 1)
    collect(world, days=9)
    assert not [key for one in captures for key in objects_below(world, one)]
    assert world.signals.counts["GarbageHalted"] == 0


def test_a_pod_that_was_launched_from_a_deleted_environment_keeps_its_data(world):
    first = a_pod(world, "one", "two")
    kept = rows(world, Version, first.environment_id)[-1].snapshot_id
    second = launch_from(world, first, 1)
    delete_environment(world, first)
    collect(world, days=9)
    assert world.snapshot(kept).state == SnapshotState.COMMITTED
    operation = world.stop(second)
    assert operation.state == OperationState.SUCCEEDED
    world.start(second)
    assert world.box.environment[TOOL] == "one"
    world.stop(second)
    collect(world, days=30)
    world.start(second)
    assert world.box.environment[TOOL] == "one"
    assert world.signals.counts["GarbageHalted"] == 0


def test_a_launch_from_an_environment_that_is_deleted_meanwhile_is_refused(world):
    first = a_pod(world, "one")
    world.app.delete_pod.delete(world.account.id, first.id)

    def delete():
        world.store.before_commit = lambda: None
        world.app.change_environment.delete(world.account.id, first.environment_id)

    world.store.before_commit = delete
    with pytest.raises(ConflictError):
        launch_from(world, first, 1)
    assert [pod.id for pod in rows(world, Pod, world.account.id)] == [first.id]


def test_versions_are_launched_on_the_image_that_the_pod_was_first_started_with(world):
    pod, _ = world.app.create_pod.create(
        world.account.id,
        NewPod(
            name="pod",
            spec=RunSpec(image="debian:11"),
            requirements=Requirements(gpu_count=1),
            start=False,
        ),
    )
    change = PodChange(spec=RunSpec(image="debian:12"))
    world.app.change_pod.change(world.account.id, pod.id, change, revision=None)
    assert keep(world, installed(world, pod, "one")).version.image == "debian:12"
