"""A pod whose machine is lost comes back by itself, from its newest saves."""

from dataclasses import replace
from datetime import timedelta

import pytest
from invariants import check_at_rest
from recovery_scenes import (
    evidence,
    machine_row,
    offers_with,
    recoveries,
    saved_pod,
    say,
    silence,
    take_away,
    until_running_elsewhere,
)
from saving_scenes import ask_save, running, shown

from podferry.domain.machine import Clearance, MachineState
from podferry.domain.offer import Market, Requirements
from podferry.domain.operation import Cause, OperationState
from podferry.domain.placement import effective_microusd_per_hour
from podferry.domain.pod import OnReclaim, PodState
from podferry.domain.state_word import StateWord
from podferry.ports.gpu_cloud import ViewState
from podferry.ports.store import Update
from podferry.services.pods import PodChange
from podferry.services.recover.seal import MOST_RECOVERIES

# What counts as a loss


def test_promise_08_a_pod_whose_machine_is_taken_away_runs_elsewhere_with_its_last_save(world):
    pod = saved_pod(world)
    head, heard_at = world.volume(pod).head, world.clock.now()
    lost = take_away(world)
    until_running_elsewhere(world, pod, pod.machine_id, minutes=4)
    assert world.box.provider_id != lost.provider_id
    assert world.box.volume == {"work": "saved"}
    (recovery,) = recoveries(world, pod)
    assert (recovery.cause, recovery.state) == (Cause.RECLAIM, OperationState.SUCCEEDED)
    told = recovery.result["recovered_from"]
    assert told["snapshot_id"] == head
    assert told["age_seconds"] <= timedelta(minutes=5, seconds=60).total_seconds()
    seen = world.pod(pod).recovered_from
    assert (seen.snapshot_id, seen.torn) == (head, ())
    assert heard_at - timedelta(seconds=11) <= seen.lost_at <= heard_at
    assert machine_row(world, pod.machine_id).state == MachineState.LOST
    assert evidence(world, pod, "machine.lost")["provider_says"] == "gone"
    check_at_rest(world, pod)


def test_torn_files_of_the_save_are_listed(world):
    pod = saved_pod(world)
    save = world.snapshot(world.volume(pod).head)
    save.summary["torn"] = ["/workspace/log"]
    world.store.commit(Update(save))
    take_away(world)
    until_running_elsewhere(world, pod, pod.machine_id)
    assert world.pod(pod).recovered_from.torn == ("/workspace/log",)
    assert recoveries(world, pod)[0].result["recovered_from"]["torn"] == ["/workspace/log"]


def test_promise_03_a_machine_that_its_provider_shows_is_not_lost_however_silent(world):
    pod = saved_pod(world)
    silence(world.box)
    world.watch(60)
    assert world.pod(pod).state == PodState.RUNNING
    assert shown(world, pod).running.word(world.clock.now()) == StateWord.UNREACHABLE
    assert recoveries(world, pod) == []


def test_promise_03_a_machine_that_speaks_is_not_lost_whatever_its_provider_says(world):
    pod = saved_pod(world)
    say(world, world.box, ViewState.GONE, "terminated")
    world.watch(30)
    assert world.pod(pod).machine_id == pod.machine_id
    assert recoveries(world, pod) == []


def test_promise_03_an_agent_that_speaks_after_the_proof_keeps_its_machine(world):
    pod = saved_pod(world)
    box = world.box
    say(world, box, ViewState.GONE, "terminated")
    world.sweep()
    silence(box)
    world.watch(0.98)
    box.is_dead = False
    ask, asked = world.alpha.get, []

    def get(provider_id):
        view = ask(provider_id)
        box.beat()
        asked.append(provider_id)
        return view

    world.alpha.get = get
    world.clock.advance(timedelta(seconds=90))
    world.sweep()
    assert asked
    assert world.pod(pod).machine_id == pod.machine_id
    assert recoveries(world, pod) == []


def test_case_p11_a_machine_that_is_not_found_once_is_not_lost(world):
    pod = saved_pod(world)
    box = world.box
    silence(box)
    world.clock.advance(timedelta(seconds=61))
    box.is_gone = True
    world.sweep()
    assert world.machine(pod).missing_since is not None
    box.is_gone = box.is_dead = False
    world.watch(10)
    assert world.pod(pod).machine_id == pod.machine_id
    assert recoveries(world, pod) == []


def test_case_p11_a_machine_that_two_listings_do_not_show_is_lost(world):
    pod = saved_pod(world)
    box = world.box
    box.is_dead = box.is_gone = True
    until_running_elsewhere(world, pod, pod.machine_id, minutes=5)
    assert evidence(world, pod, "machine.lost")["provider_says"] == "gone"


def test_promise_03_errors_of_the_provider_prove_nothing_for_a_quarter_of_an_hour(world):
    pod = saved_pod(world)
    silence(world.box)
    world.alpha.is_down = True
    world.watch(14)
    assert recoveries(world, pod) == []
    world.alpha.is_down = False
    say(world, world.box, ViewState.UNKNOWN, "???")
    world.watch(4)
    (recovery,) = recoveries(world, pod)
    assert evidence(world, pod, "machine.lost")["provider_says"] == "no_answer"
    assert recovery.is_active or recovery.state == OperationState.SUCCEEDED


@pytest.mark.parametrize("says", ["nothing", "stopped", "gone"])
def test_promise_03_what_was_silent_while_nobody_listened_is_not_lost_at_once(world, says):
    pod = saved_pod(world)
    silence(world.box)
    if says == "nothing":
        world.alpha.is_down = True
    else:
        say(world, world.box, ViewState.STOPPED if says == "stopped" else ViewState.GONE, says)
    world.clock.advance(timedelta(hours=8))  # the control plane is down, no schedule runs
    world.sweep()
    assert recoveries(world, pod) == []
    world.watch(20)
    assert len(recoveries(world, pod)) == 1


def test_promise_03_an_outbid_machine_is_ended_and_its_pod_runs_elsewhere_before_it_wakes_up(world):
    for cloud in (world.alpha, world.beta):
        offers_with(cloud, market=Market.SPOT)
    pod = saved_pod(world, requirements=Requirements(markets=(Market.SPOT,)))
    outbid = world.box
    silence(outbid)
    say(world, outbid, ViewState.RECLAIMED, "exited")
    world.alpha.delete_fails = 1
    until_running_elsewhere(world, pod, pod.machine_id, minutes=3)
    assert evidence(world, pod, "machine.lost")["provider_says"] == "reclaimed"
    assert world.machine(pod).offer.market == Market.SPOT
    assert world.machine(pod).offer.host != machine_row(world, pod.machine_id).offer.host
    world.watch(2)
    assert outbid.is_gone
    assert world.box.volume == {"work": "saved"}
    del outbid.cloud.words[outbid.provider_id]
    world.watch(4)
    assert machine_row(world, pod.machine_id).state == MachineState.RELEASED
    check_at_rest(world, pod)


def test_a_bid_that_leads_again_before_its_machine_was_lost_keeps_the_pod(world):
    pod = saved_pod(world)
    say(world, world.box, ViewState.RECLAIMED, "exited")
    silence(world.box)
    world.watch(0.5)
    world.box.is_dead = False
    world.watch(5)
    assert world.pod(pod).machine_id == pod.machine_id
    assert not world.box.is_gone


def test_what_bids_lose_makes_the_next_one_dearer_than_its_price(world):
    offers_with(world.alpha, market=Market.SPOT)
    pod = saved_pod(world, requirements=Requirements(markets=(Market.SPOT,), providers=("alpha",)))
    offer = world.machine(pod).offer
    before = effective_microusd_per_hour(offer, world.app.experiences.outlook())
    silence(world.box)
    say(world, world.box, ViewState.RECLAIMED, "exited")
    until_running_elsewhere(world, pod, pod.machine_id)
    after = effective_microusd_per_hour(offer, world.app.experiences.outlook())
    assert after > before > offer.price_microusd_per_hour


def test_a_container_that_is_shown_as_one_without_its_image_yet_has_crashed(world):
    pod = saved_pod(world)
    silence(world.box)
    say(world, world.box, ViewState.PULLING, "ACTIVE/NOT_STARTED")
    until_running_elsewhere(world, pod, pod.machine_id)


def test_case_p12_a_declared_lost_machine_costs_until_it_is_proven_gone(world):
    pod = saved_pod(world)
    box = world.box
    silence(box)
    say(world, box, ViewState.STOPPED, "exited")
    world.alpha.delete_fails = 5
    until_running_elsewhere(world, pod, pod.machine_id, minutes=8)
    row = machine_row(world, pod.machine_id)
    assert (row.state, row.clearance) == (MachineState.TERMINATING, Clearance.DECLARED_LOST)
    assert world.schedules.is_enabled
    world.watch(6)
    assert box.is_gone
    del box.cloud.words[box.provider_id]
    world.watch(4)
    assert machine_row(world, pod.machine_id).state == MachineState.RELEASED
    check_at_rest(world, pod)


def test_a_pod_that_is_left_on_a_machine_that_was_proven_gone_is_recovered(world):
    pod = saved_pod(world)
    take_away(world)
    gone = replace(world.machine(pod), state=MachineState.LOST, released_at=world.clock.now())
    world.store.commit(Update(gone))
    world.alpha.is_down = True
    world.watch(2.2)
    assert recoveries(world, pod)
    world.alpha.is_down = False
    until_running_elsewhere(world, pod, pod.machine_id)


# What becomes of the pod


def test_a_pod_that_is_to_stop_is_stopped_with_its_saves(world):
    pod = saved_pod(world)
    world.app.change_pod.change(
        world.account.id, pod.id, PodChange(on_reclaim=OnReclaim.STOP), revision=None
    )
    head = world.volume(pod).head
    take_away(world)
    world.watch(4)
    seen = world.pod(pod)
    assert (seen.state, seen.last_error.code) == (PodState.STOPPED, "machine_lost")
    assert seen.recovered_from.snapshot_id == head
    (recovery,) = recoveries(world, pod)
    assert recovery.state == OperationState.SUCCEEDED
    assert world.volume(pod).epoch > machine_row(world, pod.machine_id).epoch
    check_at_rest(world, pod)
    assert not world.schedules.is_enabled
    world.start(pod)
    assert world.box.volume == {"work": "saved"}
    assert world.pod(pod).recovered_from.snapshot_id == head
    world.stop(pod)
    assert world.pod(pod).recovered_from is None


def test_a_pod_that_is_lost_again_and_again_is_stopped_with_the_reason(world):
    pod = saved_pod(world)
    for _ in range(MOST_RECOVERIES):
        before = world.pod(pod).machine_id
        take_away(world)
        until_running_elsewhere(world, pod, before)
    take_away(world)
    world.watch(4)
    seen = world.pod(pod)
    assert seen.state == PodState.STOPPED
    assert "more than 3 times within an hour" in seen.last_error.detail
    assert recoveries(world, pod)[-1].state == OperationState.FAILED
    check_at_rest(world, pod)
    world.clock.advance(timedelta(minutes=61))
    world.start(pod)
    before = world.pod(pod).machine_id
    take_away(world)
    until_running_elsewhere(world, pod, before)


def test_a_recovery_goes_to_another_provider_when_its_own_has_nothing(world):
    pod = saved_pod(world)
    assert world.box.cloud is world.alpha
    world.alpha.has_stock = False
    take_away(world)
    until_running_elsewhere(world, pod, pod.machine_id)
    assert world.box.cloud is world.beta


def test_the_host_that_was_lost_is_avoided(world):
    pod = saved_pod(world)
    host = world.machine(pod).offer.host
    take_away(world)
    until_running_elsewhere(world, pod, pod.machine_id)
    assert world.machine(pod).offer.host != host


def test_promise_14_a_recovery_that_finds_nothing_to_rent_leaves_the_pod_stopped_and_whole(world):
    pod = saved_pod(world)
    world.alpha.has_stock = world.beta.has_stock = False
    take_away(world)
    world.watch(5)
    seen = world.pod(pod)
    assert (seen.state, seen.last_error.code) == (PodState.STOPPED, "no_capacity")
    check_at_rest(world, pod)
    world.alpha.has_stock = True
    world.start(pod)
    assert world.box.volume == {"work": "saved"}


def test_a_recovery_waits_for_capacity_as_long_as_the_pod_may(world):
    pod = saved_pod(world, capacity_wait_seconds=1800)
    world.alpha.has_stock = world.beta.has_stock = False
    take_away(world)
    world.watch(6)
    assert world.pod(pod).state == PodState.WAITING_FOR_CAPACITY
    world.beta.has_stock = True
    until_running_elsewhere(world, pod, pod.machine_id, minutes=3)
    assert world.box.volume == {"work": "saved"}
    check_at_rest(world, pod)


def test_a_recovery_shows_as_recovering_and_can_be_cancelled(world):
    pod = saved_pod(world)
    words = set()

    def look(*_):
        words.add(shown(world, pod).running.word(world.clock.now()))

    world.before_step = look
    take_away(world)
    world.watch(4, until=lambda: bool(recoveries(world, pod)))
    world.app.cancel_operation.ask(world.account.id, recoveries(world, pod)[0].id)
    assert shown(world, pod).running.word(world.clock.now()) == StateWord.STOPPING
    world.watch(3)
    assert world.pod(pod).state == PodState.STOPPED
    assert words <= {StateWord.STOPPING}
    check_at_rest(world, pod)
    world.start(pod)
    take_away(world)
    words.clear()
    world.watch(5)
    assert StateWord.RECOVERING in words
    assert StateWord.LAUNCHING not in words


def test_case_s3_a_stop_of_a_lost_machine_wins_over_the_recovery(world):
    """An operation at work proves the loss by itself; nothing starts behind its back."""
    pod = saved_pod(world)
    take_away(world)
    operation = world.app.stop_pod.ask(
        world.account.id, pod.id, accept_loss=False, cause=Cause.USER
    )
    world.watch(10)
    assert world.operation(operation).state == OperationState.FAILED
    seen = world.pod(pod)
    assert seen.state == PodState.STOPPED
    assert seen.recovered_from.snapshot_id == world.volume(pod).head
    assert 0 < seen.recovered_from.age_seconds <= 120
    assert recoveries(world, pod) == []
    check_at_rest(world, pod)


def test_a_save_that_was_under_way_and_one_that_waits_end_with_the_machine(world):
    pod = running(world, has_timer=True, holds_saves=True)
    world.watch(5.2)
    operation = ask_save(world, pod)
    take_away(world)
    until_running_elsewhere(world, pod, world.pod(pod).machine_id)
    ended = world.operation(operation)
    assert (ended.state, ended.error["code"]) == (OperationState.CANCELLED, "machine_lost")
    check_at_rest(world, pod)
