"""What nothing needs is deleted in the end, and what anything needs never is."""

from dataclasses import replace

import pytest
from yard import KIND, LONG, Yard, a_history

from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.domain.volume import Volume
from podferry.ports.store import Delete, Update
from podferry.services.garbage.stock import take_stock


@pytest.fixture
def yard():
    return Yard()


def test_what_no_save_needs_is_deleted_and_what_one_needs_stays(yard):
    _, saves, given_up = a_history(yard)
    yard.rounds(LONG)
    assert yard.missing() == []
    assert yard.needless() == set()
    left = {snapshot.id for snapshot in yard.snapshots()}
    assert saves[1] in left
    assert saves[3] in left
    assert given_up not in left


def test_a_row_stays_as_long_as_an_object_lies_under_it(yard):
    volume = yard.volume()
    first = yard.save(volume)
    second = yard.save(volume)
    yard.expire(first)
    yard.rounds(LONG)
    assert yard.snapshot(first).state == SnapshotState.DELETED
    assert yard.missing() == []
    yard.save(volume, is_whole=True)
    yard.expire(second)
    yard.rounds(LONG)
    assert yard.store.find(Snapshot, first) is None
    assert yard.store.find(Snapshot, second) is None
    assert yard.needless() == set()


def test_an_empty_row_in_the_middle_is_dropped_and_the_way_down_stays_whole(yard):
    volume = yard.volume()
    base = yard.save(volume)
    middle = yard.save(volume)
    newest = yard.begin(volume)
    yard.packs[newest] = yard.packs[base]
    yard.commit(newest)
    yard.expire(base)
    yard.expire(middle)
    yard.rounds(LONG)
    assert yard.store.find(Snapshot, middle) is None
    assert yard.snapshot(newest).stems == (base,)
    assert yard.snapshot(newest).parent_id == middle
    yard.rounds(LONG)
    assert yard.missing() == []
    yard.save(volume, is_whole=True)
    yard.expire(newest)
    yard.rounds(LONG)
    assert yard.needless() == set()


def test_empty_rows_are_dropped_whatever_the_order_of_their_ids(yard):
    """Clocks differ a little, so a child's id may come before its parent's."""
    volume = yard.volume()
    base = yard.save(volume)
    yard.pass_days(-1)
    middle = yard.begin(volume)
    yard.upload(middle)
    yard.commit(middle)
    newest = yard.begin(volume)
    yard.upload(newest)
    yard.commit(newest)
    assert middle < base
    yard.expire(base)
    yard.expire(middle)
    yard.rounds(LONG + 2)
    assert [one.id for one in yard.snapshots()] == [newest]
    assert yard.snapshot(newest).stems == ()
    assert yard.world.signals.counts["GarbageHalted"] == 0


def test_a_save_whose_parent_is_deleted_can_still_be_started_from(yard):
    volume = yard.volume()
    first = yard.save(volume)
    second = yard.save(volume)
    yard.expire(first)
    yard.rounds(LONG)
    assert yard.snapshot(first).state == SnapshotState.DELETED
    check = yard.world.app.verify_snapshot
    assert check.run([yard.snapshot(second)], None, trust_parents=False).cursor is None


def test_nothing_is_deleted_before_it_is_two_days_old_and_has_waited_for_one(yard):
    _, _, given_up = a_history(yard)
    before = yard.world.objects.keys(KIND)
    yard.rounds(1)
    assert yard.snapshot(given_up).mark is None
    yard.rounds(1)
    assert yard.snapshot(given_up).mark is not None
    assert yard.world.objects.keys(KIND) == before
    yard.pass_days(0.9)
    yard.round()
    assert yard.snapshot(given_up).state == SnapshotState.ABANDONED
    assert yard.world.objects.keys(KIND) == before
    yard.pass_days(0.1)
    yard.round()
    assert yard.world.objects.keys(KIND) != before


def test_case_s12_an_upload_that_is_under_way_keeps_what_it_builds_on(yard):
    volume = yard.volume()
    parent = yard.save(volume)
    upload = yard.begin(volume)
    yard.keep(upload)
    yard.upload(upload)
    # Not even a head that moved on and expired while the laptop slept.
    yard.save(volume, is_whole=True)
    yard.expire(parent)
    yard.rounds(3 * LONG)
    yard.upload(upload)
    yard.commit(upload)
    assert yard.missing() == []


def test_case_s12_an_object_younger_than_the_longest_upload_is_left(yard):
    volume = yard.volume()
    given_up = yard.begin(volume)
    yard.upload(given_up)
    yard.abandon(given_up)
    yard.rounds(2)
    yard.waste(given_up)
    young = set(yard.world.objects.keys(KIND))
    yard.rounds(1)
    (left,) = yard.world.objects.keys(KIND)
    assert left in young
    yard.rounds(2)
    assert yard.world.objects.keys(KIND) == []


def test_what_a_start_restores_is_kept_until_it_ends(yard):
    volume = yard.volume()
    restored = yard.save(volume)
    yard.save(volume, is_whole=True)
    operation = yard.operation(restored)
    yard.expire(restored)
    yard.rounds(2 * LONG)
    assert yard.snapshot(restored).state == SnapshotState.COMMITTED
    yard.end(operation)
    yard.rounds(LONG)
    assert yard.store.find(Snapshot, restored) is None


def test_the_failed_try_of_an_operation_at_work_is_left(yard):
    """The operation reads the rows of all its tries."""
    volume = yard.volume()
    operation = yard.operation(yard.save(volume))
    failed = yard.snapshot(yard.begin(volume))
    yard.store.commit(Update(replace(failed, operation_id=operation.id)))
    yard.abandon(failed.id)
    yard.rounds(LONG)
    assert yard.snapshot(failed.id).state == SnapshotState.ABANDONED
    yard.end(operation)
    yard.rounds(LONG)
    assert yard.store.find(Snapshot, failed.id) is None


def test_a_start_that_comes_between_the_mark_and_the_second_look_begins_the_wait_anew(yard):
    volume = yard.volume()
    restored = yard.save(volume)
    yard.save(volume, is_whole=True)
    yard.expire(restored)
    yard.rounds(2)
    assert yard.snapshot(restored).mark is not None
    operation = yard.operation(restored)
    yard.rounds(1)
    assert yard.snapshot(restored).mark is None
    yard.end(operation)
    yard.rounds(1)
    assert yard.snapshot(restored).state == SnapshotState.COMMITTED
    assert yard.missing() == []


def test_a_fork_keeps_what_it_needs_of_the_volume_it_came_from(yard):
    volume = yard.volume()
    base = yard.save(volume)
    fork = yard.volume(head=base)
    yard.save(fork)
    yard.save(volume, is_whole=True)
    yard.expire(base)
    yard.rounds(2 * LONG)
    assert yard.missing() == []
    assert yard.snapshot(base).state == SnapshotState.DELETED


def test_two_forks_keep_what_each_of_them_needs(yard):
    volume = yard.volume()
    base = yard.begin(volume)
    yard.upload(base, 3)
    yard.commit(base)
    for pack in yard.packs[base][:2]:
        fork = yard.begin(yard.volume(head=base))
        yard.packs[fork] = (pack,)
        yard.commit(fork)
    yard.save(volume, is_whole=True)
    yard.expire(base)
    yard.rounds(LONG)
    assert yard.missing() == []
    assert yard.needless() == set()
    assert yard.snapshot(base).sweep.held == 2


def test_a_save_that_expires_while_stock_is_taken_is_in_it(yard):
    volume = yard.volume()
    save = yard.save(volume)
    yard.save(volume)
    listed, left = yard.store.list_owned, [1]

    def expiring(kind, owner, **options):
        page = listed(kind, owner, **options)
        if kind is Snapshot and left:
            left.pop()
            yard.expire(save)
        return page

    yard.store.list_owned = expiring
    stock = take_stock(yard.records, yard.world.account.id, KIND)
    assert save in {one.id for one in stock.snapshots}


def test_a_head_is_never_deleted_whatever_its_row_says(yard):
    volume = yard.volume()
    head = yard.save(volume)
    yard.expire(head)
    yard.rounds(2 * LONG)
    assert yard.snapshot(head).state == SnapshotState.COMMITTED
    assert yard.snapshot(head).mark is None
    assert yard.missing() == []


@pytest.mark.parametrize("commit", [2, 3])
def test_a_snapshot_that_becomes_the_head_at_the_last_moment_is_not_deleted(yard, commit):
    """While it is about to be written as deleted, or the one before it."""
    volume = yard.volume()
    dead = [yard.save(volume) for _ in range(2)]
    yard.save(volume, is_whole=True)
    for one in dead:
        yard.expire(one)
    yard.rounds(2)
    yard.pass_days(1)
    left = [commit]

    def roll_back():
        left[0] -= 1
        if left[0] == 0:
            yard.store.before_commit = lambda: None
            row = yard.store.get(Volume, volume)
            yard.store.commit(Update(replace(row, head=dead[1])))

    yard.store.before_commit = roll_back
    yard.round()
    assert left == [0]
    assert yard.snapshot(dead[1]).state == SnapshotState.COMMITTED
    yard.rounds(LONG)
    assert yard.snapshot(dead[1]).state == SnapshotState.COMMITTED
    assert yard.missing() == []


def test_what_a_killed_try_left_beside_a_good_save_goes_too(yard):
    volume = yard.volume()
    save = yard.begin(volume)
    yard.waste(save)
    yard.upload(save)
    yard.commit(save)
    yard.rounds(LONG)
    assert yard.needless() == set()
    assert yard.missing() == []


def test_objects_without_a_row_are_left_alone(yard):
    """A table that was set back to an earlier time does not know its newest snapshots."""
    volume = yard.volume()
    save = yard.save(volume)
    row = yard.store.get(Volume, volume)
    yard.store.commit(Update(replace(row, head=None)), Delete(yard.snapshot(save)))
    before = yard.world.objects.keys(KIND)
    yard.rounds(2 * LONG)
    assert yard.world.objects.keys(KIND) == before


def test_with_a_lost_row_nothing_of_the_account_is_deleted(yard):
    _, saves, given_up = a_history(yard)
    yard.store.commit(Delete(yard.snapshot(saves[1])))
    before = yard.world.objects.keys(KIND)
    yard.rounds(2 * LONG)
    assert yard.world.objects.keys(KIND) == before
    assert yard.snapshot(given_up).state == SnapshotState.ABANDONED
    assert yard.world.signals.counts["GarbageHalted"] == 2 * LONG


def test_a_save_whose_root_is_damaged_keeps_everything_that_it_may_need(yard):
    volume, saves, _ = a_history(yard)
    yard.save(volume)
    key = f"{yard.world.account.id}/{saves[1]}/root"
    yard.world.objects.put(KIND, key, b"{}")
    yard.rounds(2 * LONG)
    assert yard.missing() == []
    assert yard.world.signals.counts["GarbageHalted"]
