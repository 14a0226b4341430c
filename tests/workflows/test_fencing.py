"""A machine that was lost and returns may only end; machines that nobody knows are given up."""

from dataclasses import replace
from datetime import timedelta

import pytest
from invariants import check_at_rest, rows
from recovery_scenes import (
    machine_row,
    saved_pod,
    say,
    silence,
    until_running_elsewhere,
)
from saving_scenes import running

from podferry.domain.command import Command, CommandKind
from podferry.domain.errors import EpochStaleError, NotGoneYetError, ProviderRefusedError
from podferry.domain.ghost import Ghost
from podferry.domain.machine import Machine, MachineState
from podferry.domain.snapshot import Snapshot, SnapshotState, StoredObject
from podferry.ports.gpu_cloud import LaunchRequest, ViewState
from podferry.ports.store import Delete

# A lost machine returns


def lost_and_standing(world, word=ViewState.GONE):
    """A pod that recovered from a machine whose provider erred: the old box still stands."""
    pod = saved_pod(world)
    box = world.box
    silence(box)
    say(world, box, word, "terminated")
    world.alpha.delete_says_ok_but_stands = 10**6
    until_running_elsewhere(world, pod, pod.machine_id)
    box.volume["work"] = "of the past"
    box.is_dead = False
    return pod, box


@pytest.mark.parametrize("word", [ViewState.GONE, ViewState.STOPPED, ViewState.RECLAIMED])
def test_promise_05_a_machine_that_returns_is_told_to_end_and_can_save_nothing(world, word):
    pod, box = lost_and_standing(world, word)
    before = world.volume(pod)
    principal = world.app.identify.who(box.token)
    for refused in (
        lambda: world.app.ask_save.ask(principal),
        lambda: world.app.sign_uploads.sign(principal, before.head, []),
        lambda: world.app.record_capture.commit(
            principal, before.head, StoredObject(name="root", size=1, sha256="0" * 64), {}
        ),
    ):
        with pytest.raises(EpochStaleError):
            refused()
    box.beat()
    assert box.was_told_to_end
    assert world.volume(pod) == before


def test_promise_05_a_save_that_was_under_way_cannot_be_handed_in_by_a_machine_that_returns(world):
    pod = running(world, has_timer=True, holds_saves=True)
    world.watch(5.2)
    box, old = world.box, world.machine(pod)
    open_id = world.volume(pod).saving.open_id
    silence(box)
    say(world, box, ViewState.GONE, "terminated")
    world.alpha.delete_says_ok_but_stands = 10**6
    until_running_elsewhere(world, pod, old.id)
    head = world.volume(pod).head
    (command,) = [r for r in box.reports if r.endswith("-save")]
    with pytest.raises(EpochStaleError):
        box._capture(world.app, world.row(Command, command).arguments)
    assert world.volume(pod).head == head
    assert world.snapshot(open_id).state == SnapshotState.ABANDONED
    assert world.volume(pod).epoch > old.epoch


def test_promise_03_a_machine_that_returns_is_given_up_until_it_is_gone(world):
    pod, box = lost_and_standing(world)
    del box.cloud.words[box.provider_id]
    box.beat()
    row = machine_row(world, pod.machine_id)
    assert (row.state, row.released_at) == (MachineState.TERMINATING, None)
    assert "machine.came_back" in world.events(pod)
    assert world.signals.counts["ReleasedMachineAlive"] == 1
    world.watch(3)
    assert not box.is_gone
    world.alpha.delete_says_ok_but_stands = 0
    world.watch(5)
    assert box.is_gone
    assert machine_row(world, pod.machine_id).state == MachineState.RELEASED
    check_at_rest(world, pod)


def test_a_machine_that_is_called_gone_is_asked_to_end_all_the_same(world):
    pod = saved_pod(world)
    box = world.box
    silence(box)
    say(world, box, ViewState.GONE, "terminated")
    until_running_elsewhere(world, pod, pod.machine_id)
    assert box.is_gone


def test_a_machine_that_was_missed_and_returns_has_to_be_missed_anew(world):
    pod = saved_pod(world)
    box = world.box
    box.is_dead = box.is_gone = True
    until_running_elsewhere(world, pod, pod.machine_id)
    assert machine_row(world, pod.machine_id).missing_since is not None
    box.beat()
    assert machine_row(world, pod.machine_id).missing_since is None


def test_a_machine_that_returns_wakes_the_schedule_of_a_deployment_at_rest(world):
    pod, box = lost_and_standing(world)
    world.alpha.delete_says_ok_but_stands = 0
    silence(box)
    world.stop(pod)
    world.watch(3)
    assert not world.schedules.is_enabled
    box.beat()
    assert world.schedules.is_enabled


# Ghosts


def haunt(world, cloud=None, stamp="pf-0a0b0c0d-0000000000000"):
    """A box of ours that no row stands for."""
    cloud = cloud or world.alpha
    known = next(iter(cloud.boxes.values())).request if cloud.boxes else None
    request = LaunchRequest(
        stamp=stamp,
        offer=known.offer if known else cloud.list_offers(None)[0],
        image="debian:12",
        bootstrap="",
    )
    provider_id = cloud.create(request)
    silence(cloud.boxes[provider_id])
    return cloud.boxes[provider_id]


def ghosts(world):
    return list(world.store.list_active(Ghost))


def test_case_p16_a_ghost_is_given_up_after_two_listings_and_an_age_not_before(world):
    running(world)
    ghost = haunt(world)
    world.sweep()
    world.sweep()
    assert not ghost.is_gone
    world.clock.advance(timedelta(seconds=119))
    world.sweep()
    assert not ghost.is_gone
    world.clock.advance(timedelta(seconds=1))
    world.sweep()
    assert ghost.is_gone
    world.watch(5)
    assert ghosts(world) == []


def test_promise_04_a_twin_does_not_cost_for_as_long_as_its_machine_is_at_work(world):
    world.alpha.twins = 1
    pod = world.launch()
    kept = world.machine(pod).provider_id
    assert len(world.boxes()) == 2
    world.watch(8)
    assert [box.provider_id for box in world.boxes()] == [kept]
    assert world.machine(pod).clearance is None
    assert ghosts(world) == []
    check_at_rest(world, pod)


def test_a_ghost_that_is_old_but_seen_only_once_is_left(world):
    running(world)
    ghost = haunt(world)
    world.sweep()
    world.alpha.listing_fails = 100
    world.watch(10)
    assert not ghost.is_gone
    assert world.signals.counts["SweepFailed"] == 9


def test_the_daily_sweep_finds_a_ghost_at_rest_and_leaves_nothing_on(world):
    ghost = haunt(world)
    assert not world.schedules.is_enabled
    world.sweep()
    assert world.schedules.is_enabled
    world.watch(10)
    assert ghost.is_gone
    assert not world.schedules.is_enabled


def test_a_ghost_that_does_not_go_is_asked_again_and_rings(world):
    running(world)
    ghost = haunt(world)
    world.alpha.delete_says_ok_but_stands = 3
    world.watch(10)
    assert ghost.is_gone
    assert world.signals.counts["GhostFound"] >= 4


@pytest.mark.parametrize("refusal", [NotGoneYetError("boots"), ProviderRefusedError("locked")])
def test_case_p16_a_ghost_that_cannot_be_ended_does_not_keep_others_from_it(
    world, monkeypatch, refusal
):
    running(world)
    stuck, other = haunt(world), haunt(world, stamp="pf-0a0b0c0d-0000000000001")
    give_up = world.alpha.give_up

    def refuse(provider_id):
        if provider_id == stuck.provider_id:
            raise refusal
        give_up(provider_id)

    monkeypatch.setattr(world.alpha, "give_up", refuse)
    world.watch(8)
    assert other.is_gone
    assert world.signals.counts["SweepFailed"] >= 1
    assert [ghost.provider_id for ghost in ghosts(world)] == [stuck.provider_id]
    monkeypatch.undo()
    world.watch(5)
    assert stuck.is_gone
    assert ghosts(world) == []


def test_what_its_provider_lists_and_calls_ended_is_no_ghost(world):
    running(world)
    ended = haunt(world)
    world.alpha.traits = replace(world.alpha.traits, failed_is_final=True)
    say(world, ended, ViewState.FAILED, "failed")
    world.watch(5)
    assert ghosts(world) == []
    assert not ended.is_gone


def test_a_ghost_that_one_listing_leaves_out_is_not_forgotten(world):
    running(world)
    ghost = haunt(world)
    world.alpha.delete_says_ok_but_stands = 10**6
    world.watch(5)
    (before,) = ghosts(world)
    ghost.is_gone = True
    world.sweep()
    ghost.is_gone = False
    world.watch(5)
    (after,) = ghosts(world)
    assert (after.created_at, after.missing_since) == (before.created_at, None)


def test_machines_of_other_deployments_and_of_other_people_are_left_alone(world):
    running(world)
    others = [haunt(world, stamp=stamp) for stamp in ("pf-ffffffff-0000000000000", "my-own-box")]
    world.watch(10)
    assert not any(box.is_gone for box in others)
    assert ghosts(world) == []


def test_promise_04_a_launch_in_flight_is_never_swept(world):
    """At every step of a launch, whatever the provider shows, its machine is not a stranger."""
    world.before_step = world.after_step = lambda *_: world.sweep()
    world.alpha.create_fails_but_exists = 1
    pod = running(world)
    assert world.pod(pod).machine_id is not None
    assert not world.box.is_gone
    assert ghosts(world) == []


def test_a_machine_that_its_provider_called_gone_and_shows_again_is_a_ghost(world):
    pod = running(world)
    box = world.box
    world.alpha.delete_says_ok_but_stands = 1
    say(world, box, ViewState.GONE, "terminated")
    world.stop(pod)
    assert not box.is_gone
    del box.cloud.words[box.provider_id]
    world.sweep()
    world.watch(8)
    assert box.is_gone
    assert ghosts(world) == []
    check_at_rest(world, pod)


def test_a_machine_whose_row_was_lost_is_given_up_and_its_agent_gets_no_word_in(world):
    pod = running(world)
    box, machine = world.box, world.machine(pod)
    world.store.commit(Delete(machine))
    silence(box)
    world.sweep()
    world.clock.advance(timedelta(minutes=3))
    world.sweep()
    assert box.is_gone
    assert rows(world, Machine, pod.id) == []
    assert CommandKind.RUN in box.done
    assert rows(world, Snapshot, pod.volume_id) == []
