"""Saves that were sealed before they had everything."""

from datetime import timedelta

import pytest
from invariants import check_at_rest, rows
from recovery_scenes import announce, evidence, saved_pod, take_away, until_running_elsewhere
from saving_scenes import saves, shown

from podferry.domain.errors import InvalidRequestError
from podferry.domain.event import Event
from podferry.domain.machine import NoticeKind
from podferry.domain.operation import Cause
from podferry.domain.saving import SaveKind, SaveState
from podferry.domain.snapshot import Snapshot
from podferry.domain.volume import Volume
from podferry.services.garbage.stock import take_stock
from podferry.services.saves.thin import EVERY

PARTIAL = {
    "is_partial": True,
    "unreached": ["model.pt: kept as of snap_before", "new.pt: not in this save"],
    "unreached_files": 2,
}


def partly_saved(world):
    """A pod whose newest save is partial, and the whole one before it."""
    pod = saved_pod(world)
    whole = world.volume(pod)
    world.box.extra_summary = PARTIAL
    announce(world, world.box, NoticeKind.RECLAIM, 5.0)
    return pod, whole


def test_promise_08_a_partial_save_is_the_head_and_says_so(world):
    pod, whole = partly_saved(world)
    volume = world.volume(pod)
    save = world.snapshot(volume.head)
    assert (save.save_kind, save.is_partial) == (SaveKind.RECLAIM, True)
    # What is sure to be there is as old as the last whole save.
    assert (volume.whole_head, volume.saved_at) == (whole.head, whole.saved_at)
    assert evidence(world, pod, "pod.saved_in_part")["unreached_files"] == 2
    assert shown(world, pod).save_state == SaveState.SAVED


def test_promise_08_a_pod_that_comes_back_with_a_partial_save_lists_what_is_older(world):
    pod, whole = partly_saved(world)
    head = world.volume(pod).head
    take_away(world)
    until_running_elsewhere(world, pod, pod.machine_id)
    left = world.pod(pod).recovered_from
    assert (left.snapshot_id, left.is_partial) == (head, True)
    assert left.unreached == tuple(PARTIAL["unreached"])
    assert left.saved_at == whole.saved_at
    assert left.as_result()["is_partial"]
    assert world.box.volume == {"work": "not saved"}
    check_at_rest(world, pod)


def test_partial_saves_in_a_row_do_not_hide_the_last_whole_one(world):
    pod, whole = partly_saved(world)
    first = world.volume(pod).head
    announce(world, world.box, NoticeKind.RECLAIM, 5.0)
    volume = world.volume(pod)
    assert volume.head != first
    assert (volume.whole_head, volume.saved_at) == (whole.head, whole.saved_at)


def test_the_next_whole_save_ends_it(world):
    pod, whole = partly_saved(world)
    world.box.extra_summary = {}
    world.watch(6)
    volume = world.volume(pod)
    assert volume.whole_head is None
    assert volume.saved_at > whole.saved_at


def test_a_stop_after_a_partial_save_is_whole(world):
    pod, _ = partly_saved(world)
    world.box.extra_summary = {}
    world.stop(pod)
    assert world.volume(pod).whole_head is None
    check_at_rest(world, pod)


def test_promise_01_a_stop_takes_no_partial_capture(world):
    pod = saved_pod(world)
    refused = []
    commit = type(world.app.record_capture).commit

    def watched(self, *args):
        try:
            return commit(self, *args)
        except InvalidRequestError as error:
            refused.append(error)
            raise

    world.box.extra_summary = PARTIAL
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.app.record_capture), "commit", watched)
        world.app.stop_pod.ask(world.account.id, pod.id, accept_loss=False, cause=Cause.USER)
        world.run(600)
    assert refused
    assert world.pod(pod).machine_id == pod.machine_id


def test_retention_keeps_the_whole_save_behind_a_partial_head(world):
    pod, whole = partly_saved(world)
    take_away(world)
    world.clock.advance(timedelta(days=40))
    world.app.autosave.thin.run_if_due(world.volume(pod))
    world.clock.advance(EVERY)
    kept = {save.id for save in saves(world, pod)}
    assert {world.volume(pod).head, whole.head} <= kept
    stock = take_stock(world.app.records, world.account.id, world.snapshot(whole.head).kind)
    assert whole.head in stock.pinned


def test_a_volume_that_was_never_saved_whole_has_what_it_has(world):
    pod = world.launch()
    world.box.extra_summary = PARTIAL
    announce(world, world.box, NoticeKind.SHUTDOWN)
    announce(world, world.box, NoticeKind.SHUTDOWN)
    volume = world.volume(pod)
    assert (volume.whole_head, volume.saved_at) == (None, None)
    assert len(rows(world, Snapshot, volume.id)) == 2
    assert world.row(Volume, volume.id).head is not None
    assert [e for e in rows(world, Event, pod.id) if e.type == "pod.saved_in_part"]
