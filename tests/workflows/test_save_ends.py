"""Saves that fail, that come too late, that are not wanted any more or are thinned out."""

from dataclasses import replace
from datetime import timedelta

import pytest
from invariants import check_at_rest, rows
from saving_scenes import (
    ask_save,
    collect,
    lose_machine,
    put_around,
    running,
    saves,
    shown,
    stop_and_accept,
)
from scenes import ask, once_at

from podferry.domain.command import Command, CommandKind
from podferry.domain.errors import EpochStaleError, WrongStateError
from podferry.domain.operation import Operation, OperationState
from podferry.domain.pod import PodState
from podferry.domain.saving import SaveKind, SaveState
from podferry.domain.snapshot import Snapshot, SnapshotState, StoredObject, object_key
from podferry.ports.store import Delete, Update
from podferry.services.pods import PodChange
from podferry.services.saves import settle
from podferry.services.saves.rows import command_id_of

# When they fail


def test_the_first_failure_and_the_recovery_are_events_and_age_rings(world):
    pod = running(world, has_timer=True)
    world.live(6)
    world.box.fails[CommandKind.CAPTURE] = 10**6
    world.live(20)
    seen = shown(world, pod)
    assert seen.save_state == SaveState.FAILING
    assert seen.saving.error.code == "agent_error"
    assert seen.saving.failures > 3
    assert world.signals.counts["SavesFailing"] > 0
    world.box.fails.clear()
    world.live(6)
    assert shown(world, pod).save_state == SaveState.SAVED
    told = [e for e in world.events(pod) if e.startswith("pod.save")]
    assert told == ["pod.save_failed", "pod.saves_overdue", "pod.saves_recovered"]
    rung = world.signals.counts["SavesFailing"]
    world.live(10)
    assert world.signals.counts["SavesFailing"] == rung


def test_one_failure_is_tried_again_soon_and_rings_nothing(world):
    pod = running(world, has_timer=True)
    world.box.fails[CommandKind.CAPTURE] = 1
    world.live(6)
    assert len(saves(world, pod)) == 1
    assert world.signals.counts["SavesFailing"] == 0


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_promise_01_a_save_whose_objects_are_damaged_does_not_become_the_head(world, damage):
    pod = running(world, has_timer=True)
    world.live(5.5)
    head = world.volume(pod).head

    def damage_it(commit, principal, snapshot_id, root, summary):
        folder = f"{world.account.id}/{snapshot_id}/packs/"
        for kind, key in [k for k in world.objects._bodies if k[1].startswith(folder)]:
            if damage == "missing":
                world.objects.remove(kind, key)
            else:
                world.objects.put(kind, key, b"y" + world.objects.read(kind, key)[1:])
        return commit(principal, snapshot_id, root, summary)

    put_around(world, "record_capture", "commit", damage_it)
    world.live(6)
    assert world.volume(pod).head == head
    assert shown(world, pod).saving.error.code == f"snapshot_{damage}"


def test_a_damaged_head_is_replaced_by_a_whole_save(world):
    pod = running(world, has_timer=True)
    world.live(5.5)
    head = world.snapshot(world.volume(pod).head)
    world.objects.remove(head.kind, object_key(world.account.id, head.id, "root"))
    world.live(8)
    newest = world.snapshot(world.volume(pod).head)
    assert newest.id != head.id
    assert shown(world, pod).save_state == SaveState.SAVED
    assert [s.parent_id for s in saves(world, pod)][1] is None


def test_a_large_save_is_verified_in_shares_and_nothing_is_skipped(world, monkeypatch):
    monkeypatch.setattr(settle, "SHARE", 1)
    pod = running(world)
    world.box.packs = 4
    ask_save(world, pod)
    answers = []

    def note(commit, *given):
        answers.append(commit(*given))
        return answers[-1]

    put_around(world, "record_capture", "commit", note)
    world.live(0.3)
    assert answers == [False, False, False, True]
    assert world.volume(pod).head is not None


def test_a_save_whose_command_is_forgotten_is_given_up_and_made_again(world):
    pod = running(world, holds_saves=True)
    operation = ask_save(world, pod)
    world.live(0.3)
    begun = world.operation(operation).volume_snapshot_id
    world.store.commit(Delete(world.row(Command, command_id_of(begun))))
    world.box.reports.clear()
    world.box.holds_saves = False
    world.live(3)
    assert world.operation(operation).error["code"] == "save_expired"
    assert world.snapshot(begun).state == SnapshotState.ABANDONED
    assert shown(world, pod).save_state == SaveState.SAVED


# Who may make them


def test_promise_09_a_stop_that_begins_during_a_save_supersedes_it(world):
    pod = running(world, has_timer=True, holds_saves=True)
    world.box.volume["a"] = "1"
    world.live(5.2)
    operation = ask_save(world, pod)
    (begun,) = rows(world, Snapshot, pod.volume_id)
    stop = world.stop(pod)
    assert stop.state == OperationState.SUCCEEDED
    assert world.snapshot(begun.id).state == SnapshotState.ABANDONED
    assert world.operation(operation).error["code"] == "superseded"
    (save,) = saves(world, pod)
    assert save.save_kind == SaveKind.STOP
    assert stop.lost == ()
    check_at_rest(world, pod)
    world.start(pod)
    assert world.box.volume == {"a": "1"}


def test_a_stop_that_comes_before_labelled_saves_takes_their_labels_over(world):
    pod = running(world, holds_saves=True)
    open_one, waiting = ask_save(world, pod, "before"), ask_save(world, pod, "and after")
    stop = world.stop(pod)
    (save,) = saves(world, pod)
    assert (save.save_kind, save.label) == (SaveKind.STOP, "before, and after")
    assert stop.result["volume"]["label"] == stop.label == save.label
    assert "label" not in stop.result["environment"]
    for operation in map(world.operation, (open_one, waiting)):
        assert operation.state == OperationState.CANCELLED
        assert f"{stop.id} is labelled 'before, and after'" in operation.error["detail"]
    collect(world, days=60)
    assert world.snapshot(save.id).expired_at is None


def test_a_stop_that_comes_before_a_save_without_a_label_has_none(world):
    pod = running(world, holds_saves=True)
    operation = ask_save(world, pod)
    stop = world.stop(pod)
    assert stop.label is None
    assert "labelled" not in world.operation(operation).error["detail"]


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_labelled_save_is_asked_for_again_if_the_stop_before_it_turns_back(world, is_cancelled):
    pod = running(world, holds_saves=True)
    ask_save(world, pod, "before")
    world.box.fails[CommandKind.QUIESCE] = 0 if is_cancelled else 9
    stop = ask(world, pod, "stop")
    if is_cancelled:
        cancel = world.app.cancel_operation.ask
        once_at(world, "before_step", "Quiesce", lambda o: cancel(world.account.id, o))
    world.settle()
    assert world.operation(stop).state in {OperationState.CANCELLED, OperationState.FAILED}
    world.box.holds_saves, world.box.has_timer = False, True
    world.live(2)
    (save,) = saves(world, pod)
    assert (save.save_kind, save.label) == (SaveKind.MANUAL, "before")
    assert world.store.get(Operation, save.operation_id).state == OperationState.SUCCEEDED


def test_promise_05_a_save_that_is_handed_in_after_the_stop_was_asked_for_is_refused(world):
    pod = running(world, has_timer=True, holds_saves=True)
    world.live(5.2)
    (begun,) = rows(world, Snapshot, pod.volume_id)
    ask(world, pod, "stop")
    world.box.holds_saves = False
    principal = world.app.identify.who(world.box.token)
    assert world.app.ask_save.ask(principal).command is None
    command = world.row(Command, command_id_of(begun.id))
    world.box._obey(world.app, command)
    assert "WrongStateError" in world.box.reports[command.id].error["detail"]
    assert world.volume(pod).head is None
    world.settle()
    assert world.pod(pod).state == PodState.STOPPED
    check_at_rest(world, pod)


def test_promise_05_a_machine_of_an_older_epoch_cannot_move_the_head(world):
    """Two machines with one volume: its lease went on while the first one was away."""
    pod = running(world, has_timer=True, holds_saves=True)
    world.live(5.2)
    (begun,) = rows(world, Snapshot, pod.volume_id)
    volume = world.volume(pod)
    world.store.commit(Update(replace(volume, epoch=volume.epoch + 1)))
    world.box.holds_saves = False
    world.live(2)
    assert world.volume(pod).head is None
    assert world.snapshot(begun.id).state != SnapshotState.COMMITTED
    root = world.snapshot(begun.id).root
    with pytest.raises(EpochStaleError):
        world.app.record_capture.commit(world.app.identify.who(world.box.token), begun.id, root, {})


def test_promise_05_no_save_is_begun_on_a_volume_that_is_at_another_epoch(world):
    pod = running(world, has_timer=True)
    volume = world.volume(pod)
    world.store.commit(Update(replace(volume, epoch=volume.epoch + 1)))
    world.live(6)
    assert rows(world, Snapshot, pod.volume_id) == []


def verified(world):
    """A save of which only the commit is left to do."""
    pod = running(world, has_timer=True, holds_saves=True)
    world.live(5.2)
    (begun,) = rows(world, Snapshot, pod.volume_id)
    world.store.commit(Update(replace(begun, state=SnapshotState.CAPTURED)))
    return pod, world.snapshot(begun.id)


def of_another_machine(world, _, save):
    world.store.commit(Update(replace(save, machine_id="mach_other")))


def not_the_open_one(world, pod, _):
    volume = world.volume(pod)
    world.store.commit(Update(replace(volume, saving=replace(volume.saving, open_id=None))))


def not_handed_in(world, _, save):
    world.store.commit(Update(replace(save, state=SnapshotState.OPEN)))


@pytest.mark.parametrize("change", [of_another_machine, not_the_open_one, not_handed_in])
def test_promise_05_only_the_open_save_of_the_pods_machine_becomes_the_head(world, change):
    pod, save = verified(world)
    change(world, pod, save)
    with pytest.raises(WrongStateError):
        world.app.end_save.commit(save.id, 1)
    assert world.volume(pod).head is None


def test_promise_05_a_stop_that_is_asked_for_while_a_save_is_committed_comes_first(world):
    pod, save = verified(world)

    def stop():
        world.store.before_commit = lambda: None
        ask(world, pod, "stop")

    world.store.before_commit = stop
    with pytest.raises(WrongStateError):
        world.app.end_save.commit(save.id, 1)
    assert world.volume(pod).head is None


def test_promise_05_a_machine_that_was_lost_and_comes_back_saves_nothing(world):
    pod = running(world, has_timer=True, holds_saves=True)
    world.live(5.2)
    (begun,) = rows(world, Snapshot, pod.volume_id)
    lost = world.box
    token = lost.token
    lose_machine(world)
    stop_and_accept(world, pod)
    world.start(pod)
    world.box.has_timer = True
    world.live(6)
    head = world.volume(pod).head
    who = world.app.identify.who(token)
    root = StoredObject(name="root", size=9, sha256="0" * 64)
    for refused in (
        lambda: world.app.ask_save.ask(who),
        lambda: world.app.record_capture.commit(who, begun.id, root, {}),
        lambda: world.app.sign_uploads.sign(who, begun.id, [root]),
    ):
        with pytest.raises(EpochStaleError):
            refused()
    assert world.volume(pod).head == head


def test_promise_10_asking_twice_and_handing_in_twice_is_one_save(world):
    pod = running(world, holds_saves=True)
    world.live(5)
    who = world.app.identify.who(world.box.token)
    first, second = world.app.ask_save.ask(who), world.app.ask_save.ask(who)
    assert first.command is not None
    assert first.command.id == second.command.id
    world.box.holds_saves = False
    world.live(1)
    (save,) = saves(world, pod)
    before = world.volume(pod)
    assert world.app.record_capture.commit(who, save.id, save.root, {}) is True
    assert world.volume(pod) == before


def test_a_move_keeps_saving_at_the_new_place(world):
    pod = running(world, has_timer=True)
    world.box.volume["a"] = "1"
    world.live(6)
    moved = ask(world, pod, "move")
    world.run()
    assert world.operation(moved).state == OperationState.SUCCEEDED
    world.box.has_timer = True
    world.live(6)
    kinds = [s.save_kind for s in saves(world, pod)]
    assert kinds == [SaveKind.BACKGROUND, SaveKind.STOP, SaveKind.BACKGROUND]
    check_at_rest(world, pod)


def test_a_stop_that_fails_leaves_a_pod_that_is_saved_again(world):
    pod = running(world, has_timer=True, holds_saves=True)
    world.live(5.2)
    world.box.fails[CommandKind.CAPTURE] = 9
    assert world.stop(pod).state == OperationState.FAILED
    world.box.fails.clear()
    world.box.holds_saves = False
    world.live(6)
    assert saves(world, pod)
    assert rows(world, Operation, pod.id)[0].state == OperationState.FAILED
    check_at_rest(world, pod)


# How long they are kept


def test_saves_are_thinned_out_and_their_objects_stay(world):
    pod = running(world, has_timer=True)
    labelled = ask_save(world, pod, "keep me")
    world.live(1)
    first = world.operation(labelled).result["snapshot_id"]
    world.app.change_pod.change(
        world.account.id, pod.id, PodChange(save_interval_seconds=1800), revision=None
    )
    objects = len(world.objects._bodies)
    world.live(60 * 30)
    assert len(world.objects._bodies) > objects
    listed = world.app.browse.saves(world.account.id, pod.volume_id, limit=100, cursor=None).items
    now = world.clock.now()
    old = [s for s in listed if now - s.committed_at > timedelta(hours=25)]
    hours = [s.committed_at.replace(minute=0, second=0) for s in old if s.id != first]
    assert len(hours) == len(set(hours))
    assert first in {s.id for s in listed}
    gone = rows(world, Snapshot, f"{pod.volume_id}#expired")
    assert gone
    assert {s.state for s in gone} == {SnapshotState.COMMITTED}
    assert all(
        world.objects.facts(s.kind, object_key(world.account.id, s.id, "root")) for s in gone
    )
    world.stop(pod)
    world.start(pod)
    assert world.pod(pod).state == PodState.RUNNING
