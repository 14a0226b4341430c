"""Providers that say what is not so, and agents that speak late, twice or out of turn."""

import hashlib
from dataclasses import replace

import pytest
from invariants import check_at_rest, rows
from scenes import DATA, ask, cancel_after, check_kept, hanging_in_capture, once_at, prepared

from podferry.domain.command import Command, CommandKind, CommandState
from podferry.domain.errors import (
    AlreadyRegisteredError,
    EpochStaleError,
    InternalError,
    ProviderBusyError,
)
from podferry.domain.machine import LONGEST_CREATE, Machine, MachineState
from podferry.domain.operation import Operation, OperationState
from podferry.domain.pod import PodState
from podferry.ports.gpu_cloud import MachineView, ViewState
from podferry.services.agent.heartbeat import Beat, CommandReport
from podferry.services.agent.register import RegisterRequest
from podferry.services.giving_up import Proof


def beat(world, box, *reports):
    principal = world.app.identify.who(box.token)
    return world.app.heartbeat.beat(
        principal, Beat(boot_id="boot", workload={}, metrics={}, reports=reports)
    )


def newest(world, pod):
    return rows(world, Operation, pod.id)[0]


# Providers


@pytest.mark.parametrize(("lag_seconds", "kept"), [(100, "alpha-1"), (700, "beta-1")])
def test_promise_04_a_machine_whose_agent_reports_first_is_adopted_if_it_is_listed_in_time(
    world, lag_seconds, kept
):
    """After the boot deadline the next offer is tried."""
    world.alpha.create_fails_but_exists = 1
    world.alpha.listing_lag_seconds = lag_seconds
    pod = world.create()
    world.run(seconds=1200)
    assert world.pod(pod).state == PodState.RUNNING
    assert world.machine(pod).provider_id == kept


def test_promise_04_a_create_that_is_still_under_way_when_its_start_is_cancelled_leaves_nothing(
    world,
):
    create = world.alpha.create
    pod = world.create()

    def slow(request):
        world.alpha.create = create
        world.engine.kill_all()
        world.reconcile()
        world.app.cancel_operation.ask(world.account.id, world.pod(pod).operation_id)
        world.run(seconds=110)
        return create(request)

    world.alpha.create = slow
    world.settle()
    assert world.pod(pod).state == PodState.STOPPED
    check_at_rest(world, pod)


def test_promise_04_a_create_call_ends_within_the_time_that_giving_up_allows_for_it(world):
    rent = world.engine.files["launch"]["States"]["Rent"]
    assert rent["TimeoutSeconds"] <= LONGEST_CREATE.total_seconds()


def test_promise_04_a_create_that_made_two_machines_ends_with_both_given_up(world):
    world.alpha.twins = 1
    pod = world.launch()
    assert len(world.boxes()) == 2
    assert world.stop(pod).state == OperationState.SUCCEEDED
    check_at_rest(world, pod)


@pytest.mark.parametrize(("refusals", "cancelled_after"), [(0, None), (8, None), (0, 1), (40, 30)])
def test_promise_04_of_two_machines_with_one_stamp_at_most_one_is_kept(
    world, refusals, cancelled_after
):
    """A second one that will not go does not hold up a cancel."""
    world.alpha.twins = world.alpha.create_fails_but_exists = 1
    world.alpha.delete_says_ok_but_stands = refusals
    pod = world.create()
    if cancelled_after is not None:
        world.run(seconds=cancelled_after)
        world.app.cancel_operation.ask(world.account.id, world.pod(pod).operation_id)
    world.settle()
    assert world.alpha.creates == 1
    is_kept = cancelled_after is None
    assert world.pod(pod).state == (PodState.RUNNING if is_kept else PodState.STOPPED)
    check_at_rest(world, pod)


def test_promise_03_a_machine_that_dials_in_after_its_provider_denied_it_rings(world):
    world.alpha.create_fails_but_exists = 1
    world.alpha.boot_never = 1
    world.alpha.listing_lag_seconds = 500
    pod = world.create()
    world.run(seconds=300)
    assert world.pod(pod).state == PodState.RUNNING
    ghost = world.alpha.boxes["alpha-1"]
    with pytest.raises(EpochStaleError):
        ghost._register(world.app)
    assert world.signals.counts["ReleasedMachineAlive"] == 1


def test_promise_03_a_machine_that_only_failed_is_not_gone(world):
    pod = prepared(world, "stop")
    box = world.box
    world.alpha.words[box.provider_id] = (ViewState.FAILED, "exited")
    world.alpha.delete_says_ok_but_stands = 1000
    operation = ask(world, pod, "stop")
    world.run(seconds=1800)
    assert world.operation(operation).state == OperationState.RUNNING
    assert world.machine(pod).state == MachineState.TERMINATING
    assert world.signals.counts["MachineStuckTerminating"] > 0
    world.alpha.delete_says_ok_but_stands = 0
    world.alpha.words.clear()
    world.settle()
    check_kept(world, pod)


def test_promise_03_one_listing_without_the_machine_proves_nothing(world):
    """It vanishes from the provider's answers for one look while it is given up."""
    pod = world.launch()
    box = world.box
    world.idle(60)
    world.alpha.delete_says_ok_but_stands = 5
    once_at(
        world,
        "before_step",
        "AwaitGone",
        lambda _: world.alpha.words.update({box.provider_id: (ViewState.GONE, "not_found")}),
    )
    once_at(world, "after_step", "AwaitGone", lambda _: world.alpha.words.clear())
    operation = ask(world, pod, "stop")
    world.run(until=lambda: world.visited(operation).count("AwaitGone") == 2)
    assert world.machine(pod).state == MachineState.TERMINATING
    world.settle()
    check_at_rest(world, pod)


@pytest.mark.parametrize("trouble", ["busy", "unlisted"])
def test_promise_06_a_machine_is_looked_at_after_it_registered_however_long_that_takes(
    world, trouble
):
    """Its price and its ports are the provider's to tell; before that nobody is billed for it."""
    pod = prepared(world, "start")
    get, create = world.beta.get, world.beta.create

    def busy(provider_id):
        if world.seconds - world.beta.boxes[provider_id].made_at < 10:
            raise ProviderBusyError("busy")
        return get(provider_id)

    def dearer(request):
        world.beta.price = 900_000
        return create(request)

    world.beta.create = dearer
    if trouble == "busy":
        world.beta.get = busy
    else:
        world.beta.listing_lag_seconds = 15
    operation = world.start(pod, max_price_microusd_per_hour=600_000, providers=("beta",))
    assert operation.error["code"] == "price_raised"
    check_at_rest(world, pod)


def test_promise_03_a_young_machine_that_is_not_listed_yet_is_waited_for_and_ended(world):
    world.alpha.listing_lag_seconds = 15
    pod = world.create()
    cancel_after(world, "Rent")
    world.settle()
    assert world.pod(pod).state == PodState.STOPPED
    check_at_rest(world, pod)


def test_promise_03_two_listings_in_a_row_and_apart_prove_a_machine_gone(world):
    pod = world.launch()
    box = world.box
    world.idle(60)

    def look(word=None):
        world.alpha.words = {} if word is None else {box.provider_id: (ViewState.GONE, word)}
        return world.app.give_up.proof(world.machine(pod))

    assert look("not_found") == Proof.MISSING
    assert look("not_found") == Proof.MISSING, "at the same moment it is the same listing"
    world.idle(2)
    assert look() == Proof.NONE
    assert look("not_found") == Proof.MISSING, "it was seen in between"
    world.idle(2)
    assert look("not_found") == Proof.GONE


def test_promise_03_a_machine_without_an_id_is_proven_gone_by_its_stamp_alone(world):
    world.alpha.create_fails_and_nothing_exists = 1
    pod = world.create()
    world.run(until=lambda: world.alpha.creates == 1)
    give_up, machine = world.app.give_up, world.machine(pod)
    world.idle(30)
    view = MachineView(
        provider_id="x", stamp=machine.stamp, state=ViewState.STARTING, raw_status="running"
    )
    world.alpha.find = lambda _: [view]
    find = world.alpha.find
    for _ in range(2):
        world.alpha.find = find
        assert give_up.proof(world.machine(pod)) == Proof.NONE
        del world.alpha.find
        assert give_up.proof(world.machine(pod)) == Proof.MISSING
        world.idle(2)
    assert give_up.proof(world.machine(pod)) == Proof.GONE


@pytest.mark.parametrize("is_final", [False, True])
def test_promise_03_a_machine_that_failed_is_gone_if_that_is_its_providers_last_word(
    world, is_final
):
    pod = world.launch()
    world.alpha.traits = replace(world.alpha.traits, failed_is_final=is_final)
    world.alpha.words[world.box.provider_id] = (ViewState.FAILED, "failed")
    proof = world.app.give_up.proof(world.machine(pod))
    assert proof == (Proof.GONE if is_final else Proof.NONE)


def test_promise_03_a_machine_is_not_released_while_another_with_its_stamp_stands(world):
    world.alpha.twins = 1
    pod = world.launch()
    give_up = world.alpha.give_up
    world.alpha.words["alpha-1"] = (ViewState.GONE, "terminated")
    world.alpha.give_up = lambda machine: None if machine.endswith("twin") else give_up(machine)
    operation = ask(world, pod, "stop")
    world.run(seconds=300)
    assert world.operation(operation).state == OperationState.RUNNING
    world.alpha.give_up = give_up
    world.settle()
    check_at_rest(world, pod)


def test_promise_01_a_machine_that_nothing_clears_is_not_given_up(world):
    pod = world.launch()
    with pytest.raises(InternalError):
        world.app.give_up.ask(world.machine(pod).id)
    assert len(world.boxes()) == 1
    check_at_rest(world, pod)


@pytest.mark.parametrize("word", ["not_found", "terminated"])
def test_promise_01_a_machine_that_speaks_is_not_gone_whatever_its_provider_says(world, word):
    pod = prepared(world, "stop")
    box = world.box
    world.idle(60)
    world.alpha.words[box.provider_id] = (ViewState.GONE, word)
    box.fails[CommandKind.CAPTURE] = 9
    operation = world.stop(pod)
    assert operation.state == OperationState.FAILED
    assert operation.error["code"] == "agent_failed"
    assert world.machine(pod).state == MachineState.READY
    world.alpha.words.clear()
    box.fails.clear()
    check_kept(world, pod)


def test_promise_03_a_lost_machine_that_stands_all_the_same_is_ended_with_the_stop(world):
    pod = prepared(world, "stop")
    box = world.box
    operation = ask(world, pod, "stop")
    box.hangs.add(CommandKind.CAPTURE)
    world.run(until=lambda: "Capture" in world.visited(operation))
    box.is_dead = True
    world.alpha.words[box.provider_id] = (ViewState.GONE, "not_found")
    world.settle()
    assert world.operation(operation).error["code"] == "machine_lost"
    check_at_rest(world, pod)


# Agents


def test_promise_11_a_boot_token_registers_one_agent_and_repeats_its_answer(world):
    pod = world.launch()
    box = world.box
    boot = world.app.identify.who(box.request.environment["PF_TOKEN"])

    def register(token):
        digest = hashlib.sha256(token.encode()).hexdigest()
        machine_id = world.machine(pod).id
        request = RegisterRequest(
            machine_id=machine_id, token_sha256=digest, agent_version="0", facts={}
        )
        return world.app.register_agent.register(boot, request)

    before = world.machine(pod)
    assert register(box.token).epoch == before.epoch
    with pytest.raises(AlreadyRegisteredError):
        register("pfm_somebody_else")
    assert world.machine(pod) == before


def test_promise_10_an_agent_that_registers_while_its_machine_is_given_back_stays_outside(world):
    pod = world.create()
    operation_id = world.pod(pod).operation_id
    world.run(until=lambda: len(world.boxes()) == 1)
    box = world.box
    world.app.cancel_operation.ask(world.account.id, operation_id)

    def give_back():
        world.store.before_commit = lambda: None
        world.settle()

    world.store.before_commit = give_back
    with pytest.raises(EpochStaleError):
        box._register(world.app)
    assert [m.state for m in rows(world, Machine, pod.id)] == [MachineState.RELEASED]
    check_at_rest(world, pod)


def test_promise_10_reports_that_come_late_or_in_the_wrong_order_change_nothing(world):
    pod = world.launch()
    (command_id,) = newest(world, pod).commands
    before = world.row(Command, command_id)
    for state in (CommandState.RUNNING, CommandState.FAILED):
        reply = beat(world, world.box, CommandReport(id=command_id, state=state))
        assert command_id in reply.forget or state == CommandState.RUNNING
    assert world.row(Command, command_id) == before


def test_promise_11_a_report_on_another_machines_command_is_ignored(world):
    pod = world.launch()
    box = world.box
    other = world.create()
    world.run(until=lambda: len(world.boxes()) == 2 and newest(world, other).commands != ())
    (command_id,) = newest(world, other).commands
    before = world.row(Command, command_id)
    beat(world, box, CommandReport(id=command_id, state=CommandState.FAILED))
    assert world.row(Command, command_id) == before
    world.settle()
    assert world.pod(other).state == PodState.RUNNING
    assert world.pod(pod).state == PodState.RUNNING


def test_promise_02_a_capture_that_ends_after_the_stop_turned_back_does_not_count(world):
    pod = prepared(world, "stop")
    box = world.box
    operation = hanging_in_capture(world, pod)
    world.run(seconds=5)
    world.app.cancel_operation.ask(world.account.id, operation.id)
    world.run()
    for command_id in world.operation(operation).commands:
        report = CommandReport(id=command_id, state=CommandState.SUCCEEDED)
        assert command_id in beat(world, box, report).forget
    box.hangs.clear()
    assert world.operation(operation).state == OperationState.CANCELLED
    assert CommandKind.CANCEL in box.done, "it is told to leave what nobody waits for"
    assert box.volume == DATA
    check_kept(world, pod)
