"""Volumes have a history: pods go back in it, fork it, and throw it away."""

from contextlib import suppress
from dataclasses import replace

import pytest
from counting_store import counted
from recovery_scenes import announce, saved_pod
from saving_scenes import ask_save, collect, saves
from volume_scenes import at_commit, changed_to, files_of, forked, pod_on, restored, stopped_with
from world import World

from podferry.domain.errors import (
    ConflictError,
    NotFoundError,
    SnapshotMissingError,
    VolumeBusyError,
    WrongStateError,
)
from podferry.domain.machine import NoticeKind
from podferry.domain.operation import Cause, OperationState
from podferry.domain.pod import PodState
from podferry.domain.snapshot import SnapshotKind
from podferry.domain.volume import Volume
from podferry.ports.store import Update


@pytest.fixture
def world():
    return World()


def test_a_volume_goes_back_to_a_save_and_forth_again(world):
    pod = stopped_with(world, work="first")
    first = world.volume(pod).head
    changed_to(world, pod, work="second")
    second = world.volume(pod).head
    restored(world, pod, first)
    assert files_of(world, pod) == {"work": "first"}
    restored(world, pod, second)
    assert files_of(world, pod) == {"work": "second"}
    assert {first, second} < {save.id for save in saves(world, pod)}


def test_promise_05_a_volume_that_a_machine_may_write_is_not_taken_back(world):
    pod = world.launch()
    operation = ask_save(world, pod)
    world.live(1)
    save = world.operation(operation).result["snapshot_id"]
    head = world.volume(pod).head
    with pytest.raises(VolumeBusyError, match=pod.id):
        restored(world, pod, save)
    assert world.volume(pod).head == head


def test_promise_05_a_start_at_the_same_moment_wins_or_restores_what_was_chosen(world):
    pod = stopped_with(world, work="first")
    first = world.volume(pod).head
    changed_to(world, pod, work="second")

    def start_meanwhile():
        world.store.before_commit = lambda: None
        world.app.start_pod.ask(world.account.id, pod.id, None, Cause.USER)

    world.store.before_commit = start_meanwhile
    with pytest.raises(VolumeBusyError):
        restored(world, pod, first)
    world.run()
    assert world.box.volume == {"work": "second"}


def test_what_a_restore_left_is_kept_as_if_it_was_made_then(world):
    """It may be months old, and no save of a stop: nothing else would keep it."""
    pod = world.launch()
    for number in range(3):
        world.box.volume = {"work": str(number)}
        ask_save(world, pod, label="kept" if number == 0 else None)
        world.live(1)
    world.box.is_dead = True
    head = saves(world, pod)[-1]
    free = replace(world.volume(pod), lease=None)
    world.store.commit(Update(free))
    world.store.commit(Update(replace(world.pod(pod), state=PodState.STOPPED)))
    collect(world, days=40)
    restored(world, pod, saves(world, pod)[0].id)
    collect(world, days=5)
    assert head.id in {save.id for save in saves(world, pod)}
    collect(world, days=40)
    assert head.id not in {save.id for save in saves(world, pod)}


@pytest.mark.parametrize("number", range(1, 7))
def test_a_save_that_is_chosen_while_saves_are_thinned_does_not_expire(world, number):
    pod = stopped_with(world, work="first")
    first = world.volume(pod).head
    changed_to(world, pod, work="second")
    changed_to(world, pod, work="third")
    chosen = []

    def restore_meanwhile():
        if world.snapshot(first).expired_at is None:
            restored(world, pod, first)
            chosen.append(first)

    at_commit(world, number, restore_meanwhile)
    collect(world, days=3)
    assert (first in {save.id for save in saves(world, pod)}) == bool(chosen)
    if chosen:
        assert world.snapshot(first).expired_at is None
        assert files_of(world, pod) == {"work": "first"}


def test_a_fork_that_hangs_for_days_is_not_made_of_what_is_gone(world):
    pod = stopped_with(world, work="first")
    first = world.volume(pod).head
    changed_to(world, pod, work="second")
    changed_to(world, pod, work="third")
    at_commit(world, 1, lambda: collect(world, days=6))
    with pytest.raises(NotFoundError):
        forked(world, pod, first)


def test_a_fork_and_its_source_go_on_by_themselves(world):
    pod = stopped_with(world, work="common")
    fork = forked(world, pod)
    other, operation = pod_on(world, fork.id)
    assert operation.state == OperationState.SUCCEEDED
    assert world.box.volume == {"work": "common"}
    world.box.volume = {"work": "of the fork"}
    world.stop(other)
    changed_to(world, pod, work="of the source")
    assert files_of(world, other) == {"work": "of the fork"}
    assert files_of(world, pod) == {"work": "of the source"}


def test_a_fork_can_go_back_to_what_it_began_with_though_that_has_expired(world):
    pod = stopped_with(world, work="common")
    origin = world.volume(pod).head
    fork = forked(world, pod)
    other, _ = pod_on(world, fork.id)
    world.box.volume = {"work": "of the fork"}
    world.stop(other)
    changed_to(world, pod, work="of the source")
    collect(world, days=50)
    assert world.snapshot(origin).expired_at is not None
    assert origin not in {save.id for save in saves(world, pod)}
    restored(world, other, origin)
    assert files_of(world, other) == {"work": "common"}


def test_a_fork_outlives_its_source(world):
    pod = stopped_with(world, work="common")
    fork = forked(world, pod)
    world.app.keep_volume.trash(world.account.id, pod.volume_id)
    collect(world, days=30)
    assert world.volume(pod).purged_at is not None
    other, _ = pod_on(world, fork.id)
    assert world.box.volume == {"work": "common"}
    world.stop(other)


def test_a_fork_of_a_million_files_reads_and_copies_nothing(world):
    """Three reads and one write of rows, whatever the volume holds; no object is touched."""
    pod = stopped_with(world, work="common")
    save = world.snapshot(world.volume(pod).head)
    large = {**save.summary, "files": 10**6, "bytes": 10**13}
    world.store.commit(Update(replace(save, summary=large)))
    with counted(world) as calls:
        fork = forked(world, pod)
    assert calls.objects == 0
    assert calls.store <= 5
    assert (fork.head, fork.size_bytes) == (save.id, 10**13)
    with counted(world) as calls:
        restored(world, pod, save.id)
    assert (calls.objects, calls.store <= 5) == (0, True)


def test_a_fork_of_a_running_pods_volume_has_its_newest_save(world):
    pod = world.launch()
    world.box.volume = {"work": "saved"}
    ask_save(world, pod)
    world.live(1)
    world.box.volume = {"work": "not saved"}
    fork = forked(world, pod)
    other, _ = pod_on(world, fork.id)
    there = [box.volume for box in world.boxes()]
    assert {"work": "saved"} in there
    assert {"work": "not saved"} in there
    assert world.pod(other).state == PodState.RUNNING


def test_a_machine_can_read_what_its_volume_was_forked_from_and_no_other_save(world):
    pod = stopped_with(world, work="first")
    changed_to(world, pod, work="second")
    fork = forked(world, pod)
    other, _ = pod_on(world, fork.id)
    foreign = next(save for save in saves(world, pod) if save.id != fork.head)
    box = world.box
    principal = world.app.identify.who(box.token)
    with pytest.raises(NotFoundError):
        world.app.sign_downloads.sign(principal, foreign.id, [])
    assert world.app.sign_downloads.sign(principal, fork.head, []) == []
    assert world.pod(other).state == PodState.RUNNING


def test_what_is_in_the_trash_is_not_started_and_can_be_taken_back(world):
    pod = stopped_with(world, work="precious")
    keep = world.app.keep_volume
    keep.trash(world.account.id, pod.volume_id)
    keep.trash(world.account.id, pod.volume_id)
    with pytest.raises(WrongStateError, match="undelete"):
        world.start(pod)
    for ask in (lambda: restored(world, pod, "snap_x"), lambda: forked(world, pod)):
        with pytest.raises(WrongStateError, match="undelete"):
            ask()
    collect(world, days=6)
    keep.take_back(world.account.id, pod.volume_id)
    collect(world, days=20)
    assert files_of(world, pod) == {"work": "precious"}


def test_after_a_week_the_collector_frees_what_was_in_the_trash(world):
    pod = stopped_with(world, work="old")
    kept = world.snapshot(world.volume(pod).head)
    world.store.commit(Update(replace(kept, label="even what has a label")))
    world.app.keep_volume.trash(world.account.id, pod.volume_id)
    collect(world, days=6)
    assert world.objects.keys(SnapshotKind.VOLUME)
    collect(world, days=8)
    assert not world.objects.keys(SnapshotKind.VOLUME)
    assert world.objects.keys(SnapshotKind.ENVIRONMENT)
    with pytest.raises(NotFoundError):
        world.app.keep_volume.take_back(world.account.id, pod.volume_id)
    with pytest.raises(WrongStateError, match="for good"):
        world.start(pod)
    assert world.pod(pod).state == PodState.STOPPED


def test_promise_07_a_volume_in_use_is_not_deleted(world):
    pod = world.launch()
    with pytest.raises(VolumeBusyError, match=pod.id):
        world.app.keep_volume.trash(world.account.id, pod.volume_id)


@pytest.mark.parametrize("number", range(1, 6))
def test_a_volume_that_is_taken_back_as_the_trash_is_emptied_keeps_all(world, number):
    pod = stopped_with(world, work="precious")
    world.app.keep_volume.trash(world.account.id, pod.volume_id)
    world.clock.advance(world.volume(pod).gone_from - world.clock.now())

    def take_back_meanwhile():
        with suppress(NotFoundError):
            world.app.keep_volume.take_back(world.account.id, pod.volume_id)

    at_commit(world, number, take_back_meanwhile)
    collect(world, days=20)
    if world.volume(pod).trashed_at is None:
        assert files_of(world, pod) == {"work": "precious"}
    else:
        assert number > 1
        assert not world.objects.keys(SnapshotKind.VOLUME)


def test_a_fork_of_a_partial_save_names_the_whole_one_before_it(world):
    pod = saved_pod(world)
    whole = world.volume(pod)
    world.box.extra_summary = {"is_partial": True}
    announce(world, world.box, NoticeKind.RECLAIM, 5.0)
    head = world.volume(pod).head
    fork = forked(world, pod)
    assert (fork.head, fork.whole_head) == (head, whole.head)
    assert fork.saved_at == world.snapshot(whole.head).created_at
    assert fork.pins == {head, whole.head}


def test_another_name_is_refused_if_it_is_based_on_an_old_revision(world):
    pod = stopped_with(world, work="named")
    keep, account = world.app.keep_volume, world.account.id
    revision = world.volume(pod).revision
    assert keep.rename(account, pod.volume_id, "models", revision).name == "models"
    with pytest.raises(ConflictError):
        keep.rename(account, pod.volume_id, "late", revision)
    assert world.volume(pod).name == "models"


def test_what_was_done_to_a_volume_is_in_its_events(world):
    pod = stopped_with(world, work="first")
    changed_to(world, pod, work="second")
    restored(world, pod, saves(world, pod)[0].id)
    keep, account = world.app.keep_volume, world.account.id
    for ask in (
        lambda: keep.rename(account, pod.volume_id, "models", None),
        lambda: keep.trash(account, pod.volume_id),
        lambda: keep.take_back(account, pod.volume_id),
    ):
        world.idle(1)
        ask()
    page = world.app.browse.volume_events(account, pod.volume_id, limit=100, cursor=None)
    told = [event.type.removeprefix("volume.") for event in reversed(page.items)]
    assert told == ["restored", "renamed", "deleted", "undeleted"]


def test_promise_07_a_fork_whose_objects_are_gone_is_not_started_empty(world):
    pod = stopped_with(world, work="common")
    fork = forked(world, pod)
    for key in world.objects.keys(SnapshotKind.VOLUME):
        world.objects.delete(SnapshotKind.VOLUME, [key])
    other, operation = pod_on(world, fork.id)
    assert operation.state == OperationState.FAILED
    assert operation.error["code"] == SnapshotMissingError.code
    assert world.pod(other).state == PodState.STOPPED
    assert world.store.get(Volume, fork.id).head == fork.head
