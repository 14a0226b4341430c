"""Machines that were rented with an account's own key, over their whole life."""

from datetime import timedelta

import pytest
from crashing_store import Crash
from fake_cloud import FakeCloud
from invariants import check_at_rest
from scenes import DATA

from podferry.domain.errors import (
    ConflictError,
    InternalError,
    InvalidRequestError,
    KeyRefusedError,
    NotFoundError,
    WrongStateError,
)
from podferry.domain.event import Event
from podferry.domain.operation import OperationState
from podferry.domain.pod import PodState
from podferry.domain.provider_key import USE_SETTLES, KeyState


def with_own_key(world, text="mine", provider="alpha"):
    world.clouds.own[provider, text] = cloud = world.cloud_class(world, provider)
    world.app.provider_keys.put(world.account.id, provider, text)
    return cloud


def a_pod_under(world, own: FakeCloud):
    pod = world.launch()
    world.box.volume = dict(DATA)
    assert list(own.boxes) == [world.machine(pod).provider_id]
    return pod


def key_of(world):
    return world.app.provider_keys.get(world.account.id, "alpha")


def refused(*_):
    raise KeyRefusedError("alpha answered 401")


def test_a_pod_is_rented_and_given_up_with_the_accounts_own_key(world):
    own = with_own_key(world)
    pod = a_pod_under(world, own)
    assert world.machine(pod).key_of == world.account.id
    assert world.stop(pod).state == OperationState.SUCCEEDED
    assert (world.alpha.creates, own.creates, own.standing()) == (0, 1, [])
    check_at_rest(world, pod)


def test_a_machine_of_the_deployments_key_stays_with_it_when_an_own_key_comes(world):
    pod = world.launch()
    world.box.volume = dict(DATA)
    own = with_own_key(world)
    assert world.stop(pod).state == OperationState.SUCCEEDED
    assert world.alpha.standing() == []
    world.start(pod)
    assert (own.creates, world.alpha.creates) == (1, 1)
    assert world.box.volume == DATA


def test_a_key_under_which_machines_stand_cannot_be_deleted(world):
    pod = a_pod_under(world, with_own_key(world))
    with pytest.raises(WrongStateError, match=f"{pod.id}: stop those pods first"):
        world.app.provider_keys.delete(world.account.id, "alpha")
    world.stop(pod)
    world.clock.advance(USE_SETTLES)
    world.app.provider_keys.delete(world.account.id, "alpha")
    assert world.key_vault.texts == {}


def test_a_key_with_which_a_machine_was_rented_a_moment_ago_cannot_be_deleted(world):
    with_own_key(world)
    pod = world.create()
    world.run(until=lambda: key_of(world).used_at is not None)
    lists = world.store.list_active
    world.store.list_active = lambda kind: iter(())  # The index is behind.
    with pytest.raises(ConflictError, match="within the last minute"):
        world.app.provider_keys.delete(world.account.id, "alpha")
    world.store.list_active = lists
    world.run()
    assert world.pod(pod).state == PodState.RUNNING


def test_promise_03_a_key_of_another_provider_account_does_not_make_machines_vanish(world):
    pod = a_pod_under(world, with_own_key(world))
    world.clock.advance(USE_SETTLES)
    with pytest.raises(WrongStateError, match="must show the machines"):
        with_own_key(world, "of somebody else")
    assert world.stop(pod).state == OperationState.SUCCEEDED
    check_at_rest(world, pod)


def test_a_renewed_key_of_the_same_provider_account_takes_over(world):
    own = with_own_key(world)
    pod = a_pod_under(world, own)
    world.clock.advance(USE_SETTLES)
    world.clouds.own["alpha", "renewed"] = own
    world.app.provider_keys.put(world.account.id, "alpha", "renewed")
    del world.clouds.own["alpha", "mine"]
    assert world.stop(pod).state == OperationState.SUCCEEDED
    assert own.standing() == []


def test_the_owner_may_vouch_for_a_key_that_does_not_show_everything(world):
    pod = a_pod_under(world, with_own_key(world))
    world.clouds.own["alpha", "renewed"] = world.cloud_class(world, "alpha")
    world.app.provider_keys.put(world.account.id, "alpha", "renewed", is_same_account=True)
    assert world.pod(pod).state == PodState.RUNNING


def test_a_key_that_is_refused_stops_nothing_and_is_told_to_the_owner(world):
    own = with_own_key(world)
    pod = a_pod_under(world, own)
    get, own.get = own.get, refused
    find, own.find = own.find, refused
    listing, own.list_machines = own.list_machines, refused

    world.watch(10)

    assert world.pod(pod).state == PodState.RUNNING
    assert key_of(world).state == KeyState.UNAUTHORISED
    told = [e.type for e in world.store.list_owned(Event, pod.id, limit=100).items]
    assert told.count("provider_key.unauthorised") == 1
    assert world.signals.counts["OwnKeyRefused"] == 1
    assert world.signals.counts["DeploymentKeyRefused"] == 0

    own.get, own.find, own.list_machines = get, find, listing
    world.watch(2)
    assert key_of(world).state == KeyState.WORKS
    assert world.stop(pod).state == OperationState.SUCCEEDED


def test_a_deployments_key_that_is_refused_rings_as_long_as_it_is_and_stops_nothing(world):
    pod = world.launch()
    listing, world.alpha.list_machines = world.alpha.list_machines, refused
    world.watch(3)
    rung = world.signals.counts["DeploymentKeyRefused"]
    assert rung >= 2
    assert world.pod(pod).state == PodState.RUNNING
    world.alpha.list_machines = listing
    world.watch(3)
    assert world.signals.counts["DeploymentKeyRefused"] == rung
    assert world.signals.counts["OwnKeyRefused"] == 0


def test_a_key_that_is_only_tried_rings_nowhere(world):
    world.clouds.own["alpha", "wrong"] = cloud = world.cloud_class(world, "alpha")
    cloud.list_machines = refused
    with pytest.raises(InvalidRequestError):
        world.app.provider_keys.put(world.account.id, "alpha", "wrong")
    assert {name for name in world.signals.counts if "Refused" in name} == set()


def test_a_stop_with_a_refused_key_waits_until_the_key_is_good_again(world):
    own = with_own_key(world)
    pod = a_pod_under(world, own)
    give_up, own.give_up = own.give_up, refused
    get, own.get = own.get, refused
    operation = world.stop(pod)
    assert (world.pod(pod).state, operation.state) == (PodState.STOPPING, OperationState.RUNNING)
    own.give_up, own.get = give_up, get
    world.run()
    assert world.pod(pod).state == PodState.STOPPED
    assert own.standing() == []


def test_a_refused_own_key_does_not_fall_back_to_the_deployments_and_its_bill(world):
    own = with_own_key(world)
    own.list_offers = refused
    pod = world.launch()
    assert world.machine(pod).offer.provider == "beta"
    assert world.alpha.creates == 0


def test_ghosts_under_an_own_key_are_found_and_given_up_with_it(world):
    own = with_own_key(world)
    pod = a_pod_under(world, own)
    own.twins = 1
    world.stop(pod)
    world.start(pod)
    twin = next(b for b in own.standing() if b.provider_id.endswith("twin"))
    world.stop(pod)
    twin.is_gone = False
    world.clock.advance(USE_SETTLES)
    world.app.sweep.run()
    with pytest.raises(WrongStateError, match="belongs to no pod"):
        world.app.provider_keys.delete(world.account.id, "alpha")
    for _ in range(6):
        world.clock.advance(timedelta(minutes=3))
        world.app.sweep.run()
    assert own.standing() == []
    world.app.provider_keys.delete(world.account.id, "alpha")


def test_a_key_that_is_refused_at_the_create_call_gives_way_to_another_provider(world):
    own = with_own_key(world)
    own.create = refused
    pod = world.launch()
    assert world.machine(pod).offer.provider == "beta"
    assert key_of(world).state == KeyState.UNAUTHORISED


def test_a_deletion_that_was_cut_off_after_the_row_is_finished_by_the_next(world):
    with_own_key(world)
    delete = world.key_vault.delete

    def broken(provider, account):
        world.key_vault.delete = delete
        raise InternalError("Secrets Manager does not answer")

    world.key_vault.delete = broken
    with pytest.raises(InternalError):
        world.app.provider_keys.delete(world.account.id, "alpha")
    with pytest.raises(NotFoundError):
        world.app.provider_keys.delete(world.account.id, "alpha")
    assert world.key_vault.texts == {}


@pytest.mark.parametrize("is_written", [False, True])
def test_a_crash_while_a_key_is_put_leaves_the_old_one_or_the_new_one(world, is_written):
    own = with_own_key(world)
    world.clouds.own["alpha", "renewed"] = own
    version = key_of(world).version
    world.store.crash_at = world.store.commits + 1
    world.store.crash_after_writing = is_written
    with pytest.raises(Crash):
        world.app.provider_keys.put(world.account.id, "alpha", "renewed")
    assert (key_of(world).version != version) == is_written
    pod = world.launch()
    assert world.machine(pod).key_of == world.account.id
    assert list(own.boxes) == [world.machine(pod).provider_id]


def test_promise_17_an_own_key_at_rest_wakes_nobody(world):
    pod = a_pod_under(world, with_own_key(world))
    world.stop(pod)
    world.watch(10, until=lambda: not world.schedules.is_enabled)
    assert not world.schedules.is_enabled
