"""What is told to providers and asked of them while a machine is found, rented and awaited."""

from itertools import pairwise

import pytest
from asl import StateError
from invariants import check_at_rest, rows
from scenes import cancel_after, once_at

from podferry.domain.errors import NoCapacityError, ProviderBusyError
from podferry.domain.event import Event
from podferry.domain.machine import Machine, MachineState
from podferry.domain.operation import Operation, OperationState
from podferry.domain.pod import PodState
from podferry.ports.gpu_cloud import ViewState

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9mTzG8cK3xGq0Wq3jN8f3n1m0f3W1vX1n8rQ0dZ8aT me@example"


def operation_of(world, pod):
    (operation,) = rows(world, Operation, pod.id)
    return operation


def lose_the_answer(_):
    raise StateError("Lambda.Unknown", "the answer was lost on the way")


def test_milestones_and_events_tell_the_whole_of_a_launch_once(world):
    world.alpha.create_fails_but_exists = 1
    pod = world.launch()
    assert [m.phase for m in operation_of(world, pod).milestones] == [
        "asked",
        "begun",
        "offer_chosen",
        "rented",
        "agent_registered",
        "run",
        "ready",
    ]
    assert sorted(world.events(pod)) == [
        "machine.intended",
        "machine.registered",
        "machine.requested",
        "machine.unknown",
        "pod.base_resolved",
        "pod.created",
        "pod.restoring",
        "pod.running",
        "pod.start_asked",
    ]
    machine = world.machine(pod)
    assert machine.create_ended_at == machine.requested_at, "it is not moved when it is found"
    evidence = {e.type: e.evidence for e in rows(world, Event, pod.id)}
    assert evidence["machine.unknown"]["note"] == "500"
    assert "note" not in evidence["machine.requested"]


@pytest.mark.parametrize("has_key", [False, True])
def test_a_machine_is_rented_with_the_accounts_ssh_key_if_it_has_one(world, has_key):
    if has_key:
        world.app.ssh_keys.add(world.account.id, "mine", KEY)
    world.launch()
    expected = " ".join(KEY.split()[:2])
    given = world.box.request.ssh_public_key
    assert (given or "").startswith(expected if has_key else "")
    assert (given is not None) == has_key


# The step runs again


def test_a_create_whose_answer_is_lost_on_the_way_is_not_waited_for_in_a_listing(world):
    world.alpha.listing_lag_seconds = 15
    pod = world.create()
    once_at(world, "after_step", "Rent", lose_the_answer)
    world.run()
    assert world.pod(pod).state == PodState.RUNNING
    assert "WaitForListing" not in world.visited(operation_of(world, pod))
    assert world.alpha.creates == 1


def test_a_refusal_whose_answer_is_lost_on_the_way_is_not_waited_for_in_a_listing(world):
    world.alpha.create_raises = [NoCapacityError("sold out")]
    pod = world.create()
    once_at(world, "after_step", "Rent", lose_the_answer)
    world.run()
    assert world.pod(pod).state == PodState.RUNNING
    assert "WaitForListing" not in world.visited(operation_of(world, pod))
    check_at_rest(world, pod)


def test_a_cancel_while_a_create_is_looked_for_is_noticed_before_the_machine_is_awaited(world):
    world.alpha.create_fails_but_exists = 1
    pod = world.create()
    cancel_after(world, "Rent")
    world.settle()
    assert "AwaitAgent" not in world.visited(operation_of(world, pod))
    check_at_rest(world, pod)


@pytest.mark.parametrize("is_sold_out", [False, True])
@pytest.mark.parametrize("is_given_back", [False, True])
def test_what_a_create_call_says_is_written_down_also_of_a_machine_that_is_given_back(
    world, is_given_back, is_sold_out
):
    create = world.alpha.create
    pod = world.create()
    operation = operation_of(world, pod)

    def meanwhile(request):
        world.alpha.create = create
        if is_given_back:
            world.step_again("ReturnMachine", operation.id)
        if is_sold_out:
            raise NoCapacityError("sold out")
        return create(request)

    states = []
    world.alpha.create = meanwhile
    once_at(world, "after_step", "Rent", lambda _: states.append(world.machine(pod).state))
    world.settle()
    stays = MachineState.TERMINATING if is_given_back else MachineState.PROVISIONING
    assert states == [MachineState.RELEASED if is_sold_out else stays]
    assert world.pod(pod).state == PodState.RUNNING
    check_at_rest(world, pod)


# What providers answer


def test_a_provider_that_is_not_wanted_is_not_asked_for_offers(world):
    pod = world.launch()
    world.stop(pod)
    asked = []
    world.beta.list_offers = lambda wanted: asked.append(wanted) or []
    assert world.start(pod, providers=("alpha",)).state == OperationState.SUCCEEDED
    assert asked == []


def test_one_offer_that_is_sold_out_says_nothing_of_the_providers_other_offers(world):
    world.alpha.create_raises = [NoCapacityError("sold out")]
    world.launch()
    assert world.alpha.creates == 2
    assert world.beta.creates == 0


def test_a_start_that_may_not_wait_tries_every_offer_once(world):
    for cloud in (world.alpha, world.beta):
        cloud.create_raises = [NoCapacityError("sold out") for _ in range(20)]
    pod = world.launch()
    assert (world.alpha.creates, world.beta.creates) == (2, 2)
    assert pod.state == PodState.STOPPED
    assert pod.last_error.code == NoCapacityError.code
    check_at_rest(world, pod)


def test_a_wait_for_capacity_is_told_once_however_long_it_takes(world):
    world.alpha.has_stock = world.beta.has_stock = False
    pod = world.create(capacity_wait_seconds=600)
    world.run(seconds=200)
    assert world.visited(operation_of(world, pod)).count("WaitForCapacity") > 3
    assert world.events(pod).count("pod.waiting_for_capacity") == 1


def test_promise_04_a_machine_that_failed_at_once_is_not_adopted(world):
    world.alpha.create_fails_but_exists = 1
    world.alpha.words["alpha-1"] = (ViewState.FAILED, "exited")
    pod = world.create()
    once_at(world, "after_step", "ReturnMachine", lambda _: world.alpha.words.clear())
    world.run()
    pod = world.pod(pod)
    assert pod.state == PodState.RUNNING
    assert world.machine(pod).provider_id == "alpha-2"
    assert world.boxes() == [world.alpha.boxes["alpha-2"]]
    visited = world.visited(operation_of(world, pod))
    assert visited.index("ReturnMachine") < visited.index("AwaitAgent")


def test_promise_04_machines_that_stand_are_not_taken_for_none_while_one_too_many_goes(world):
    world.alpha.twins = world.alpha.create_fails_but_exists = world.alpha.boot_never = 1
    world.alpha.delete_says_ok_but_stands = 20
    pod = world.create()
    world.run(seconds=90)
    assert "ReturnMachine" not in world.visited(operation_of(world, pod))
    assert world.machine(pod).provider_id == "alpha-1"
    assert len(world.boxes()) == 1


def test_promise_04_a_machine_that_comes_after_its_start_was_given_up_is_ended_at_once(world):
    """Its create call took longer than any call can; nobody waits for it any more."""
    create = world.alpha.create
    pod = world.create()

    def slow(request):
        world.alpha.create = create
        world.engine.kill_all()
        world.app.cancel_operation.ask(world.account.id, world.pod(pod).operation_id)
        world.reconcile()
        world.settle()
        assert world.pod(pod).state == PodState.STOPPED
        return create(request)

    world.alpha.create = slow
    world.run()
    assert world.alpha.creates == 1
    assert world.boxes() == []
    assert [m.state for m in rows(world, Machine, pod.id)] == [MachineState.RELEASED]
    assert world.events(pod).count("pod.start_cancelled") == 1


def test_a_provider_is_not_asked_more_often_than_it_allows(world):
    looks = []
    get = world.alpha.get
    world.alpha.get = lambda provider_id: (looks.append(world.seconds), get(provider_id))[1]
    world.alpha.boot_never = 1
    world.create()
    world.run(seconds=60)
    pauses = [later - sooner for sooner, later in pairwise(looks)]
    assert min(pauses) >= world.alpha.traits.poll_seconds
    assert len(looks) > 20


def test_a_provider_that_is_busy_when_it_is_looked_at_does_not_end_a_boot(world):
    get = world.alpha.get

    def busy(provider_id):
        if world.seconds < 10:
            raise ProviderBusyError("busy")
        return get(provider_id)

    world.alpha.get = busy
    pod = world.launch()
    assert world.pod(pod).state == PodState.RUNNING
    assert operation_of(world, pod).state == OperationState.SUCCEEDED
    assert world.alpha.creates == 1
