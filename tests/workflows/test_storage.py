"""Each byte of the store is charged once: to the oldest that needs it, first to who stored it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from counting_store import counted
from saving_scenes import ask_save, collect
from volume_scenes import box_of, changed_to, forked, pod_on, stopped_with
from world import World
from yard import KIND, Yard

from podferry.domain.snapshot import SnapshotKind
from podferry.ports.store import Update
from podferry.services.garbage.recharge import MoveCharges


@pytest.fixture
def world():
    return World()


@pytest.fixture
def yard():
    return Yard()


def in_store(world):
    return sum(
        one.size for kind in SnapshotKind for one in world.objects.listed(kind, "", None, 10**6)
    )


def of_account(world):
    seen = world.app.read_storage.of_account(world.account.id)
    return seen.volumes_bytes + seen.environments_bytes


def trash(yard, volume):
    yard.world.app.keep_volume.trash(yard.world.account.id, volume)


def fork_of(yard, volume):
    yard.pass_days(0.001)  # Ids of one moment have no order.
    return yard.world.app.fork_volume.fork(yard.world.account.id, volume, None, None).id


def test_what_saves_and_stops_added_is_charged_when_they_are_committed(world):
    pod = world.launch()
    world.box.volume = {"work": "saved"}
    ask_save(world, pod)
    world.live(1)
    assert of_account(world) == in_store(world) > 0
    world.stop(pod)
    assert of_account(world) == in_store(world)
    seen = world.app.read_storage.of_account(world.account.id)
    assert world.app.read_storage.of_one(pod.volume_id) == seen.volumes_bytes
    assert world.app.read_storage.of_one(pod.environment_id) == seen.environments_bytes > 0


def test_a_fork_costs_what_it_adds(world):
    pod = stopped_with(world, work="common")
    own = world.app.read_storage.of_one(pod.volume_id)
    fork = forked(world, pod)
    assert world.app.read_storage.of_one(fork.id) == 0
    other, _ = pod_on(world, fork.id)
    box_of(world, other).volume = {"work": "of the fork"}
    world.stop(other)
    assert world.app.read_storage.of_one(fork.id) > 0
    assert world.app.read_storage.of_one(pod.volume_id) == own
    assert of_account(world) == in_store(world)


def test_what_the_collector_frees_is_charged_no_more(world):
    pod = stopped_with(world, work="first")
    changed_to(world, pod, work="second")
    changed_to(world, pod, work="third")
    before = of_account(world)
    collect(world, days=40)
    assert 0 < of_account(world) < before
    assert of_account(world) == in_store(world)


def test_when_its_owner_is_gone_the_oldest_fork_answers_for_what_forks_need(yard):
    volume = yard.volume()
    yard.save(volume)
    yard.save(volume, every=2)
    forks = [fork_of(yard, volume) for _ in range(2)]
    yard.save(forks[1])
    added = yard.charged_bytes()[forks[1]]
    trash(yard, volume)
    yard.rounds(6)
    assert yard.charged_bytes()[volume] > 0, "it can be taken back"
    yard.rounds(10)
    charged = yard.charged_bytes()
    assert charged[volume] == 0
    assert charged[forks[0]] > 0
    assert charged[forks[1]] == added
    assert sum(charged.values()) == yard.stored_bytes()
    trash(yard, forks[0])
    yard.rounds(16)
    charged = yard.charged_bytes()
    assert charged[forks[0]] == 0
    assert charged[forks[1]] == yard.stored_bytes() > 0


def test_an_owner_that_needs_it_no_more_does_not_answer_for_it(yard):
    """Its fork still needs the first save; the owner began anew with a whole one."""
    volume = yard.volume()
    yard.save(volume)
    fork = fork_of(yard, volume)
    yard.save(volume, is_whole=True)
    assert yard.charged_bytes().get(fork, 0) == 0
    yard.rounds(3)
    charged = yard.charged_bytes()
    assert charged[fork] > 0
    assert sum(charged.values()) == yard.stored_bytes()


def test_an_owner_whose_newest_save_builds_on_it_answers_for_it_still(yard):
    """The first save is in no list any more, only the fork names it; both need what is in it."""
    volume = yard.volume()
    yard.save(volume)
    fork = fork_of(yard, volume)
    yard.save(volume)
    yard.rounds(43)
    charged = yard.charged_bytes()
    assert charged.get(fork, 0) == 0
    assert charged[volume] == yard.stored_bytes()


def test_what_was_committed_uncounted_is_counted_by_the_collector(yard):
    volume = yard.volume()
    save = yard.save(volume)
    uncounted = replace(yard.snapshot(save), charge=None, stored_bytes=None)
    yard.store.commit(Update(uncounted))
    use = yard.charged_bytes()
    yard.rounds(3)
    assert yard.snapshot(save).charge.bytes == yard.stored_bytes()
    assert yard.charged_bytes()[volume] == use[volume] + yard.stored_bytes()


def test_what_a_killed_try_left_is_not_charged_and_goes(yard):
    volume = yard.volume()
    begun = yard.begin(volume)
    yard.upload(begun)
    yard.waste(begun)
    yard.commit(begun)
    assert 0 < yard.charged_bytes()[volume] < yard.stored_bytes()
    yard.rounds(4)
    assert yard.charged_bytes()[volume] == yard.stored_bytes()


def test_a_charge_that_moved_meanwhile_is_left_to_the_next_round(yard):
    volume = yard.volume()
    yard.save(volume)
    fork = fork_of(yard, volume)
    trash(yard, volume)
    yard.rounds(7)
    yard.pass_days(1)
    move = MoveCharges._move
    seen = []

    def lagging(self, shift, snapshot_id, heir):
        yard.store.before_commit = lambda: seen.append(1) or _touch(yard, snapshot_id)
        move(self, shift, snapshot_id, heir)

    MoveCharges._move = lagging
    try:
        yard.round()
    finally:
        MoveCharges._move = move
        yard.store.before_commit = lambda: None
    yard.rounds(2)
    assert yard.charged_bytes()[fork] == yard.stored_bytes()


def _touch(yard, snapshot_id):
    yard.store.before_commit = lambda: None
    yard.store.commit(Update(yard.snapshot(snapshot_id)))


def test_reading_it_looks_at_no_snapshot_and_no_object(yard):
    volume = yard.volume()
    for _ in range(50):
        yard.save(volume)
    with counted(yard.world) as calls:
        yard.world.app.read_storage.of_account(yard.world.account.id)
    assert (calls.objects, calls.store <= 4) == (0, True)
    assert len(yard.world.objects.keys(KIND)) > 50


def test_storage_is_metered_by_bytes_and_time(yard):
    volume = yard.volume()
    yard.save(volume)
    stored = yard.stored_bytes()
    read = yard.world.app.read_storage.byte_seconds
    before = read(yard.world.account.id)
    yard.world.clock.advance(timedelta(hours=2))
    assert read(yard.world.account.id) - before == stored * 7200
