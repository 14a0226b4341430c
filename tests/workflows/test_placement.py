"""What a launch rents, how long it waits for it, and what it learns from it."""

from dataclasses import replace

import pytest
from invariants import check_at_rest, rows
from recovery_scenes import offers_with, saved_pod, take_away

from podferry.domain.errors import NoCapacityError, ProviderBusyError
from podferry.domain.event import Event
from podferry.domain.experience import Experience
from podferry.domain.machine import Machine
from podferry.domain.offer import Market, Requirements
from podferry.domain.operation import Cause, Operation, OperationState
from podferry.domain.pod import PodState, RunSpec
from podferry.domain.snapshot import Snapshot, SnapshotKind
from podferry.ports.gpu_cloud import ViewState
from podferry.ports.store import Update
from podferry.services.pods import PodChange


def facts(cuda, arch="x86_64"):
    gpus = [{"name": "RTX 4090", "driver_version": "550.1", "memory_mib": 24564}]
    return {"arch": arch, "cuda_version": cuda, "gpus": gpus if cuda else []}


def stopped_pod(world, cuda="12.8", arch="x86_64"):
    world.next_facts = lambda: facts(cuda, arch)
    pod = world.launch()
    world.stop(pod)
    return world.pod(pod)


def experience(world):
    (only,) = world.store.list_active(Experience)
    return only


# Learned from machines


def test_a_start_teaches_how_long_boots_and_restores_take(world):
    pod = world.launch()
    machine = world.machine(pod)
    known = experience(world)
    assert (known.provider, known.kind, known.market) == ("alpha", "container", "on_demand")
    assert known.boots == (int((machine.registered_at - machine.requested_at).total_seconds()),)
    assert known.restores == (int((machine.ready_at - machine.registered_at).total_seconds()),)
    world.stop(pod)
    served = rows(world, Machine, pod.id)[0]
    assert experience(world).served_seconds == int(
        (served.released_at - served.ready_at).total_seconds()
    )


def test_a_step_that_runs_again_teaches_nothing_twice(world):
    world.repeats = True
    world.launch()
    assert len(experience(world).boots) == 1


def test_a_loss_teaches_how_often_machines_are_lost_and_a_stop_does_not(world):
    pod = saved_pod(world)
    take_away(world, world.box)
    world.watch(10, until=lambda: experience(world).losses)
    known = next(e for e in world.store.list_active(Experience) if e.provider == "alpha")
    assert (known.losses, known.served_seconds > 0) == (1, True)
    world.watch(5, until=lambda: world.pod(pod).state == PodState.RUNNING)
    world.stop(pod)
    assert sum(e.losses for e in world.store.list_active(Experience)) == 1


def test_a_provider_that_boots_slowly_comes_after_one_that_is_a_little_dearer(world):
    world.beta.price = world.alpha.price + 1_000
    pod = world.launch()
    known = experience(world)
    slow = replace(known, boots=(1800,), revision=known.revision)
    world.store.commit(Update(slow))
    world.stop(pod)
    world.start(pod)
    assert world.machine(pod).offer.provider == "beta"


# Deadlines


@pytest.mark.parametrize("provisions", [True, False])
def test_case_p5_a_boot_is_waited_for_as_long_as_its_provider_says_that_it_is_at_work(
    world, provisions
):
    """25 minutes where 10 are usual: killed at 10 each time, it would never start, and cost."""
    pod = world.create()
    world.run(until=lambda: len(world.boxes()) == 1)
    box = world.box
    state = ViewState.PROVISIONING if provisions else ViewState.STARTING
    world.alpha.words[box.provider_id] = (state, "loading")
    box.next_beat = world.seconds + 1500
    world.run(1499)
    world.alpha.words.pop(box.provider_id)
    world.run()
    assert world.pod(pod).state == PodState.RUNNING
    assert world.alpha.creates == (1 if provisions else 2)
    check_at_rest(world, pod)


def test_case_p5_every_new_word_of_the_provider_is_a_sign_of_progress(world):
    pod = world.create()
    world.run(until=lambda: len(world.boxes()) == 1)
    box = world.box
    box.next_beat = world.seconds + 1500
    for part in range(3):
        world.alpha.words[box.provider_id] = (ViewState.STARTING, f"image {part} of 3")
        world.run(500)
    world.run()
    assert (world.pod(pod).state, world.alpha.creates) == (PodState.RUNNING, 1)


def test_case_p4_a_provider_that_is_at_work_for_ever_is_left_after_three_deadlines(world):
    pod = world.create()
    world.run(until=lambda: len(world.boxes()) == 1)
    first = world.box
    first.is_dead = True
    world.alpha.words[first.provider_id] = (ViewState.PROVISIONING, "loading")
    world.before_step = lambda step, _: step == "ReturnMachine" and world.alpha.words.clear()
    asked = world.seconds
    world.run(until=lambda: world.alpha.creates == 2)
    assert 1800 <= world.seconds - asked < 1900
    world.run()
    assert world.pod(pod).state == PodState.RUNNING


@pytest.mark.parametrize("is_slow", [True, False])
def test_case_p5_an_agent_whose_machine_is_not_listed_is_given_as_long_as_boots_really_took(
    world, is_slow
):
    pod = world.launch()
    known = experience(world)
    world.store.commit(Update(replace(known, boots=(700,) if is_slow else (7,))))
    world.stop(pod)
    world.alpha.create_fails_but_exists = 1
    world.alpha.listing_lag_seconds = 1500
    world.start(pod, providers=("alpha",))
    assert world.alpha.creates == (2 if is_slow else 3)


def test_case_p5_a_deadline_grows_with_what_boots_really_took(world):
    pod = world.launch()
    known = experience(world)
    world.store.commit(Update(replace(known, boots=(700,))))
    world.stop(pod)
    world.app.start_pod.ask(
        world.account.id, pod.id, Requirements(providers=("alpha",)), Cause.USER
    )
    world.run(until=lambda: len(world.boxes()) == 1)
    world.box.next_beat = world.seconds + 1800
    world.run()
    assert (world.pod(pod).state, world.alpha.creates) == (PodState.RUNNING, 2)


# The floor of the environment


def test_an_environment_remembers_the_system_it_was_made_on(world):
    pod = stopped_pod(world)
    made_on = world.store.get(Snapshot, pod.environment_head).made_on
    assert (made_on.arch, made_on.cuda, made_on.driver) == ("x86_64", "12.8", "550.1")
    volume = world.volume(pod).head
    assert world.store.get(Snapshot, volume).kind == SnapshotKind.VOLUME
    assert world.store.get(Snapshot, volume).made_on is None


@pytest.mark.parametrize(
    ("made", "offered", "fits"),
    [("12.8", "12.2", True), ("12.8", "13.0", True), ("13.0", "12.8", False), (None, "11.0", True)],
)
def test_a_driver_of_an_older_cuda_major_version_is_not_rented(world, made, offered, fits):
    pod = stopped_pod(world, made)
    for cloud in (world.alpha, world.beta):
        offers_with(cloud, cuda_max=offered)
    world.next_facts = lambda: facts(offered)
    creates = world.alpha.creates
    operation = world.start(pod)
    assert operation.state == (OperationState.SUCCEEDED if fits else OperationState.FAILED)
    assert world.alpha.creates - creates == int(fits)
    assert fits or "loosen min_cuda" in operation.error["detail"]


def test_another_architecture_is_never_rented(world):
    pod = stopped_pod(world, arch="aarch64")
    operation = world.start(pod)
    assert operation.error["code"] == "no_capacity"
    assert "arch" in operation.error["detail"]


def test_what_the_offer_does_not_say_the_agent_does_before_anything_is_restored(world):
    pod = stopped_pod(world, "13.0")
    old_drivers = [facts("12.8"), facts("12.8"), facts("13.0")]
    world.next_facts = lambda: old_drivers.pop(0)
    operation = world.start(pod)
    assert operation.state == OperationState.SUCCEEDED
    refused, taken = (world.alpha.creates - 1, world.beta.creates)
    assert (refused, taken) == (2, 1)
    returned = [e for e in events(world, pod) if e.type == "machine.returned"]
    assert all("needs 13.0" in e.evidence["detail"] for e in returned)
    check_at_rest(world, pod)


def test_a_user_may_ask_for_an_older_cuda_than_the_environment_was_made_on(world):
    pod = stopped_pod(world, "13.0")
    for cloud in (world.alpha, world.beta):
        offers_with(cloud, cuda_max="12.4")
    world.next_facts = lambda: facts("12.4")
    assert world.start(pod).state == OperationState.FAILED
    assert world.start(pod, min_cuda="12.1").state == OperationState.SUCCEEDED


def test_a_move_to_where_the_environment_cannot_run_leaves_the_pod_alone(world):
    world.next_facts = lambda: facts("13.0")
    pod = world.launch()
    offers_with(world.beta, cuda_max="12.4")
    operation = world.move(pod, providers=("beta",))
    assert operation.error["code"] == "no_capacity"
    assert "min_cuda" in operation.error["detail"]
    assert world.pod(pod).state == PodState.RUNNING
    assert rows(world, Snapshot, pod.environment_id) == []


def events(world, pod):
    return world.store.list_owned(Event, pod.id, limit=100).items


# Markets


def test_spot_is_rented_only_by_those_who_ask_for_it(world):
    pod = world.launch()
    world.stop(pod)
    offers_with(world.alpha, market=Market.SPOT)
    world.start(pod)
    assert world.machine(pod).offer.provider == "beta"
    world.stop(pod)
    world.start(pod, markets=(Market.SPOT,))
    assert world.machine(pod).offer.market == Market.SPOT


# No capacity


def test_case_r8_a_pod_that_waits_says_what_would_fit(world):
    world.alpha.price = world.beta.price = 700_000
    pod = world.launch()
    world.stop(pod)
    capped = PodChange(
        spec=RunSpec(image="debian:12", capacity_wait_seconds=3600),
        requirements=Requirements(max_price_microusd_per_hour=500_000),
    )
    world.app.change_pod.change(world.account.id, pod.id, capped, None)
    asked = world.app.start_pod.ask(world.account.id, pod.id, None, Cause.USER)
    world.run(60)
    assert world.pod(pod).state == PodState.WAITING_FOR_CAPACITY
    waiting = world.operation(asked).waiting_for
    assert waiting.ruled_out == {"max_price_microusd_per_hour": 4}
    (nearest,) = waiting.nearest
    assert nearest.loosen == ("max_price_microusd_per_hour",)
    told = next(e for e in events(world, pod) if e.type == "pod.waiting_for_capacity")
    assert told.evidence["nearest"][0]["loosen"] == ["max_price_microusd_per_hour"]
    world.alpha.price = 400_000
    world.run()
    assert world.pod(pod).state == PodState.RUNNING
    assert world.operation(asked).waiting_for is None


# Rate limits


def test_case_p15_a_busy_provider_is_asked_again_when_it_wants_to_be(world):
    world.alpha.create_raises = [ProviderBusyError("429", retry_after_seconds=45)]
    asked = []
    create = world.alpha.create
    world.alpha.create = lambda request: asked.append(world.seconds) or create(request)
    pod = world.launch()
    assert world.pod(pod).state == PodState.RUNNING
    first, second = asked
    assert 45 <= second - first < 50
    assert world.beta.creates == 0


def test_case_p15_a_provider_that_is_busy_for_too_long_gives_way_and_is_left_alone(world):
    world.alpha.create_raises = [ProviderBusyError("429", retry_after_seconds=600)] * 9
    pod = world.launch()
    assert world.machine(pod).offer.provider == "beta"
    assert world.alpha.creates == 2, "one try for each of its offers"
    check_at_rest(world, pod)


def test_a_provider_without_capacity_gives_way_to_the_next_offer(world):
    world.alpha.create_raises = [NoCapacityError("sold out")] * 2
    pod = world.launch()
    assert world.machine(pod).offer.provider == "beta"
    (operation,) = rows(world, Operation, pod.id)
    assert operation.state == OperationState.SUCCEEDED
