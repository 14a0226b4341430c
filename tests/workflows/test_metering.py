"""What machines cost is charged while they cost it, once, and to their proven end."""

from datetime import timedelta
from itertools import pairwise

import pytest
from invariants import check_at_rest, check_bill, rows
from recovery_scenes import saved_pod, silence, take_away, until_running_elsewhere
from saving_scenes import running

from podferry.domain.errors import ConflictError
from podferry.domain.ledger import OPERATOR, LedgerEntry, Line, Payer
from podferry.domain.machine import Machine
from podferry.domain.metering import EVERY, Meter
from podferry.domain.operation import Cause
from podferry.ports.gpu_cloud import ViewState
from podferry.ports.store import Delete
from podferry.services.giving_up import machine_cost


def ledger(world, owner=None):
    """Oldest first."""
    return rows(world, LedgerEntry, owner or world.account.id)[::-1]


def owed(entries, line=None):
    return sum(e.amount_microusd for e in entries if line in {None, e.line})


def balance(world):
    return world.app.read_bills.balance(world.account.id).microusd


def test_case_b1_the_balance_falls_while_the_pod_runs_and_not_at_its_end(world):
    running(world)
    world.app.give_credit.give(world.account.id, 1_000_000, "welcome")
    seen = []
    for _ in range(4):
        world.watch(10)
        seen.append(balance(world))
    assert 1_000_000 > seen[0] > seen[1] > seen[2] > seen[3]
    # No later than the interval and the minute of the schedule behind what it costs.
    unmetered = (EVERY + timedelta(minutes=1)).total_seconds() / 3600
    machine = rows(world, Machine, world.pods()[0].id)[0]
    cost = (world.clock.now() - machine.billed_from).total_seconds() / 3600
    price = machine.contract_microusd_per_hour
    assert 0 <= cost * price - (1_000_000 - seen[-1]) <= unmetered * price


def test_the_rows_of_a_pod_are_what_its_receipt_says(world):
    pod = world.launch()
    world.watch(12)
    receipt = world.stop(pod).result
    check_at_rest(world, pod)
    entries = ledger(world)
    assert owed(entries) == receipt["cost_microusd"] > 0
    assert {entry.line for entry in entries} == {Line.BOOT, Line.RUN, Line.ENDING}
    assert [e.starts_at for e in entries] == sorted(e.starts_at for e in entries)
    assert all(a.ends_at == b.starts_at for a, b in pairwise(entries))


def test_promise_17_the_schedule_rests_when_the_last_machine_is_metered_and_not_before(world):
    pod = world.launch()
    world.stop(pod)
    world.app.reconcile.run()
    assert world.schedules.is_enabled
    world.meter()
    world.app.reconcile.run()
    assert not world.schedules.is_enabled
    assert list(world.store.list_active(Meter)) == []
    commits = world.store.commits
    world.meter()
    assert world.store.commits == commits


@pytest.mark.parametrize("after", [False, True])
def test_promise_10_a_meter_that_dies_anywhere_charges_everything_once(world, after):
    pod = world.launch()
    for minute in range(1, 30):
        world.clock.advance(timedelta(minutes=1))
        world.store.crash_at = world.store.commits + 1 if minute % 3 else None
        world.store.crash_after_writing = after
        world.meter()
    assert world.crashes > 3
    world.store.crash_at = None
    world.stop(pod)
    check_at_rest(world, pod)


def test_promise_10_two_meters_at_once_charge_once(world):
    pod = world.launch()
    world.clock.advance(timedelta(minutes=20))
    inner, world.store.before_commit = world.meter, lambda: None

    def the_other():
        world.store.before_commit = lambda: None
        inner()

    world.store.before_commit = the_other
    world.meter()
    check_bill(world, pod)
    world.store.conflicts = 2
    world.clock.advance(timedelta(minutes=20))
    world.meter()
    check_bill(world, pod)


def test_a_machine_in_trouble_does_not_keep_others_from_being_charged(world):
    world.launch()
    second = world.launch()
    world.clock.advance(timedelta(minutes=20))
    refused = min(machine.id for machine in world.store.list_active(Machine))

    def refuse():
        raise ConflictError("it keeps moving")

    plain = world.store.commit

    def commit(*changes):
        if any(change.entity.id == refused for change in changes):
            refuse()
        plain(*changes)

    world.store.commit = commit
    world.meter()
    assert world.signals.counts["MeterFailed"] == 1
    assert {entry.rented.pod_id for entry in ledger(world)} == {second.id}


def test_promise_03_a_machine_that_will_not_go_costs_until_it_has_gone(world):
    pod = world.launch()
    world.watch(6)
    world.alpha.delete_says_ok_but_stands = 10**6
    world.app.stop_pod.ask(world.account.id, pod.id, accept_loss=False, cause=Cause.USER)
    world.watch(30)
    first = owed(ledger(world), Line.ENDING)
    world.watch(30)
    second = owed(ledger(world), Line.ENDING)
    assert 0 < first < second
    world.alpha.delete_says_ok_but_stands = 0
    world.watch(10)
    check_at_rest(world, pod)


def test_case_b7_a_machine_that_never_became_usable_is_carried_by_the_operator(world):
    world.alpha.boot_never = 1
    pod = world.create()
    world.watch(30)
    failed, good = sorted(rows(world, Machine, pod.id), key=lambda m: m.id)
    assert machine_cost(failed) > 0
    world.stop(pod)
    check_at_rest(world, pod)
    entries = ledger(world)
    of_failed = [e for e in entries if e.rented.machine_id == failed.id]
    assert owed(of_failed, Line.FAILED_BOOT) == machine_cost(failed)
    assert owed([e for e in of_failed if e.payer == Payer.ACCOUNT]) == 0
    assert {e.payer for e in entries if e.rented.machine_id == good.id} == {Payer.ACCOUNT}
    assert -balance(world) == machine_cost(world.row(Machine, good.id))


def test_a_boot_that_is_called_off_is_paid_by_the_account(world):
    world.alpha.boot_never = world.beta.boot_never = 10
    pod = world.create()
    world.watch(3)
    world.app.cancel_operation.ask(world.account.id, world.pod(pod).operation_id)
    world.watch(3)
    check_at_rest(world, pod)
    entries = ledger(world)
    assert owed(entries) > 0
    assert {(entry.line, entry.payer) for entry in entries} == {(Line.BOOT, Payer.ACCOUNT)}


def test_a_lost_machine_is_charged_to_its_end_and_the_next_from_its_start(world):
    pod = saved_pod(world)
    take_away(world)
    until_running_elsewhere(world, pod, pod.machine_id)
    world.watch(6)
    world.stop(pod)
    check_at_rest(world, pod)
    assert len({entry.rented.machine_id for entry in ledger(world)}) == 2


def test_a_machine_that_comes_back_after_its_end_was_proven_goes_on_costing(world):
    pod = saved_pod(world)
    machine_id, box = pod.machine_id, world.box
    world.alpha.delete_says_ok_but_stands = 10**6
    box.is_dead = True
    box.cloud.words[box.provider_id] = (ViewState.GONE, "terminated")
    until_running_elsewhere(world, pod, machine_id)
    world.watch(3)
    assert not world.row(Meter, machine_id).is_active
    before = world.row(Meter, machine_id).charged_microusd
    box.is_dead = False
    del box.cloud.words[box.provider_id]
    world.watch(8)
    assert world.row(Meter, machine_id).charged_microusd > before
    world.alpha.delete_says_ok_but_stands = 0
    world.watch(5)
    world.stop(pod)
    check_at_rest(world, pod)


def test_a_machine_that_comes_back_and_goes_at_once_is_charged_to_its_second_end(world):
    pod = saved_pod(world)
    machine_id, box = pod.machine_id, world.box
    world.alpha.delete_says_ok_but_stands = 10**6
    box.is_dead = True
    box.cloud.words[box.provider_id] = (ViewState.GONE, "terminated")
    until_running_elsewhere(world, pod, machine_id)
    world.watch(3)
    assert not world.row(Meter, machine_id).is_active
    del box.cloud.words[box.provider_id]
    world.clock.advance(timedelta(minutes=10))
    box.is_dead = False
    world.alpha.delete_says_ok_but_stands = 0
    box.beat()
    for _ in range(10):
        world.clock.advance(timedelta(seconds=5))
        world.sweep()
    assert not world.row(Machine, machine_id).is_active
    world.stop(pod)
    check_at_rest(world, pod)


def test_a_ghost_is_on_a_line_of_the_operators_and_of_no_account(world):
    pod = running(world)
    twin = world.alpha.create(next(iter(world.alpha.boxes.values())).request)
    silence(world.alpha.boxes[twin])
    world.watch(10)
    assert world.alpha.boxes[twin].is_gone
    (entry,) = ledger(world, OPERATOR)
    assert (entry.line, entry.payer, entry.account_id) == (Line.GHOST, Payer.OPERATOR, "")
    assert entry.rented.machine_id == f"ghost_alpha_{twin}"
    assert entry.amount_microusd > 0
    world.stop(pod)
    check_at_rest(world, pod)


def test_machines_that_stood_before_there_was_a_meter_get_one(world):
    pod = world.launch()
    machine_id = world.pod(pod).machine_id
    world.store.commit(Delete(world.row(Meter, machine_id)))
    world.watch(7)
    assert world.row(Meter, machine_id).charged_microusd > 0
