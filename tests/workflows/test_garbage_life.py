"""The garbage collector in the life of a real pod: its saves are thinned, it stops and starts."""

from dataclasses import replace
from datetime import timedelta

from invariants import check_at_rest, check_data
from saving_scenes import collect, saved_each_minute
from scenes import DATA

from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState, expired_owner
from podferry.ports.store import Update

VOLUME = SnapshotKind.VOLUME


def keys_of(world, snapshot_id):
    prefix = f"{world.account.id}/{snapshot_id}/"
    return [key for key in world.objects.keys(VOLUME) if key.startswith(prefix)]


def test_saves_that_were_thinned_out_go_and_the_pod_starts_from_what_is_left(world):
    pod = saved_each_minute(world, minutes=6)
    world.stop(pod)
    saves = list(world.store.list_owned(Snapshot, pod.volume_id, limit=100).items)
    world.clock.advance(timedelta(days=40))
    world.start(pod)
    world.live(3)
    gone = list(world.store.list_owned(Snapshot, expired_owner(pod.volume_id), limit=100).items)
    assert len(gone) >= 3
    assert {one.id for one in gone} < {one.id for one in saves}
    world.stop(pod)
    collect(world, 7)
    for one in gone:
        assert keys_of(world, one.id) == []
        assert world.store.find(Snapshot, one.id) is None
    assert keys_of(world, world.volume(pod).head)
    check_data(world, pod, DATA, "installed")
    check_at_rest(world, pod)


def test_the_capture_that_a_failed_try_left_goes_and_the_good_one_stays(world):
    pod = saved_each_minute(world, minutes=0.2)

    def damage(kind, snapshot_id, pack):
        world.after_capture = lambda *_: None
        world.objects.remove(kind, f"{world.account.id}/{snapshot_id}/{pack}")

    world.after_capture = damage
    world.stop(pod)
    world.stop(pod)
    collect(world, 7)
    check_data(world, pod, DATA, "installed")
    for kind in SnapshotKind:
        owners = {key.split("/")[1] for key in world.objects.keys(kind)}
        states = {world.snapshot(owner).state for owner in owners}
        assert states == {SnapshotState.COMMITTED}


def test_a_collection_at_every_step_of_a_start_and_a_stop_takes_nothing_away(world):
    pod = saved_each_minute(world, minutes=4)
    world.stop(pod)
    head = world.volume(pod).head
    saves = list(world.store.list_owned(Snapshot, pod.volume_id, limit=100).items)
    for save in saves:
        if save.id != head:
            expired = replace(save, expired_at=world.clock.now())
            world.store.commit(Update(expired))
    collect(world, 2)
    world.clock.advance(timedelta(days=1))
    assert all(keys_of(world, save.id) for save in saves)
    world.after_step = lambda *_: world.app.collect_garbage.run(lambda: True)
    world.start(pod)
    assert [save.id for save in saves if keys_of(world, save.id)] == [head]
    world.box.volume["more"] = "of it"
    world.stop(pod)
    check_data(world, pod, {**DATA, "more": "of it"}, "installed")
    check_at_rest(world, pod)
