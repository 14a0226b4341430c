"""Receipts, grounds and patience of giving a machine up."""

import math
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from asl import StateError
from invariants import check_at_rest, rows
from scenes import DATA, ask, check_kept, hanging_in_capture, once_at, prepared

from podferry.domain.command import CommandKind
from podferry.domain.errors import NoCapacityError, ProviderBusyError
from podferry.domain.event import Event
from podferry.domain.machine import Clearance, Machine, MachineState
from podferry.domain.operation import Cause, Operation, OperationState
from podferry.domain.pod import PodState
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState, object_key
from podferry.domain.volume import Lease
from podferry.ports.store import Delete, Update
from podferry.services.giving_up import LONGEST_AWAY_SECONDS


def lossy_stop(world, pod):
    operation = world.app.stop_pod.ask(world.account.id, pod.id, accept_loss=True, cause=Cause.USER)
    world.settle()
    return world.operation(operation)


# Grounds and receipts


def test_a_receipt_tells_what_was_captured_and_what_the_machine_cost(world):
    pod = prepared(world, "stop")
    machine = world.machine(pod)
    world.idle(600)
    operation = world.stop(pod)
    receipt, gone = operation.result, world.row(Machine, machine.id)
    billed = (gone.released_at - gone.billing_started_at).total_seconds()
    assert billed >= 600
    assert gone.price_microusd_per_hour == world.alpha.price
    assert receipt["cost_microusd"] == math.ceil(math.ceil(billed) * world.alpha.price / 3600)
    assert receipt["billed_from"] == gone.billing_started_at.isoformat().replace("+00:00", "Z")
    assert receipt["billed_to"] == gone.released_at.isoformat().replace("+00:00", "Z")
    for name, head in (
        ("environment", world.pod(pod).environment_head),
        ("volume", world.volume(pod).head),
    ):
        snapshot = world.snapshot(head)
        assert receipt[name]["snapshot_id"] == head
        assert receipt[name]["root_sha256"] == snapshot.root.sha256
        assert receipt[name]["bytes"] == snapshot.summary["bytes"]
    assert world.volume(pod).size_bytes == world.snapshot(world.volume(pod).head).summary["bytes"]


def test_a_machine_that_was_shown_is_proven_gone_without_the_time_that_a_listing_takes(world):
    pod = prepared(world, "stop")
    machine = world.machine(pod)
    world.stop(pod)
    gone = world.row(Machine, machine.id)
    settles = timedelta(seconds=world.alpha.traits.listing_settles_seconds)
    assert machine.shown_at < gone.released_at < machine.create_ended_at + settles


def test_milestones_tell_a_whole_stop_in_order(world):
    pod = prepared(world, "stop")
    operation = ask(world, pod, "stop")
    once_at(world, "before_step", "Quiesce", lambda o: world.step_again("GiveUpMachine", o))
    world.run()
    phases = [m.phase for m in world.operation(operation).milestones]
    captures = ["capture-environment", "capture-volume"]
    assert phases == ["asked", "begun", "quiesce", *captures, "committed", "giving_up", "released"]
    assert world.engine.executions[operation.id].status == "SUCCEEDED"


@pytest.mark.parametrize("accept_loss", [False, True])
def test_promise_01_a_capture_that_was_reported_and_never_handed_in_does_not_count(
    world, accept_loss
):
    pod = prepared(world, "stop")
    world.box._capture = lambda *_: {"snapshot_id": "none"}
    operation = world.stop(pod, accept_loss=accept_loss)
    if accept_loss:
        assert len(operation.result["lost"]) == 2
        return
    assert operation.error["code"] == "snapshot_unverified"
    assert world.box.volume == DATA
    del world.box._capture
    check_kept(world, pod)


def test_promise_01_each_damaged_capture_is_lost_for_its_own_reason(world):
    pod = prepared(world, "stop")

    def damage(kind, snapshot_id, _):
        world.objects.remove(kind, object_key(world.account.id, snapshot_id, "root"))

    world.after_capture = damage
    lost = lossy_stop(world, pod).result["lost"]
    assert len(lost) == 2
    assert all("no capture of" not in line for line in lost)
    assert world.signals.counts["VerifyFailed"] == 2


def test_snapshots_of_a_lossy_stop_are_abandoned_not_left_open(world):
    pod = prepared(world, "stop")
    world.box.fails[CommandKind.CAPTURE] = 9
    assert lossy_stop(world, pod).state == OperationState.SUCCEEDED
    snapshots = rows(world, Snapshot, pod.volume_id)
    assert {s.state for s in snapshots} == {SnapshotState.ABANDONED}


@pytest.mark.parametrize("kind", list(SnapshotKind))
def test_promise_01_of_two_captures_only_the_damaged_one_is_lost(world, kind):
    """Its loss is accepted; the other one is verified and committed all the same."""
    pod = prepared(world, "stop")

    def damage(captured, snapshot_id, _):
        if captured == kind:
            world.objects.remove(kind, object_key(world.account.id, snapshot_id, "root"))

    world.after_capture = damage
    operation = lossy_stop(world, pod)
    assert operation.state == OperationState.SUCCEEDED
    (lost,) = operation.result["lost"]
    assert lost.startswith(f"changes of the {kind} since its last committed state: ")
    assert operation.result["clearance"] == Clearance.LOSS_ACCEPTED
    other = next(other for other in SnapshotKind if other != kind)
    assert operation.result[kind] is None
    assert operation.result[other] is not None
    assert (world.pod(pod).environment_head is None) == (kind == SnapshotKind.ENVIRONMENT)
    assert (world.volume(pod).head is None) == (kind == SnapshotKind.VOLUME)
    check_at_rest(world, pod)


def test_promise_01_a_machine_that_went_before_its_capture_is_cleared_by_that_proof(world):
    pod = prepared(world, "stop")
    operation = hanging_in_capture(world, pod)
    world.box.is_gone = True
    world.settle()
    receipt = world.operation(operation).result
    assert world.row(Machine, receipt["machine_id"]).state == MachineState.LOST
    assert receipt["clearance"] == Clearance.PROVEN_GONE
    assert [lost.split(":")[0] for lost in receipt["lost"]] == [
        f"changes of the {kind} since its last committed state" for kind in SnapshotKind
    ]
    assert world.pod(pod).last_error.code == "machine_lost"


def test_promise_01_a_machine_that_goes_after_its_captures_has_lost_nothing(world):
    pod = prepared(world, "stop")
    box = world.box

    def go(_):
        box.is_gone = True
        raise StateError("States.Timeout")

    operation = ask(world, pod, "stop")
    once_at(world, "before_step", "VerifyCaptures", go)
    world.settle()
    ended = world.operation(operation)
    assert (ended.state, ended.result["lost"]) == (OperationState.SUCCEEDED, [])
    assert ended.result["clearance"] == Clearance.CAPTURES_VERIFIED
    assert world.pod(pod).last_error is None
    check_kept(world, pod)


def test_promise_01_a_machine_that_was_ready_is_not_returned_like_one_that_never_was(world):
    pod = prepared(world, "stop")
    machine = world.machine(pod)
    world.step_again("ReturnMachine", machine.operation_id)
    assert world.machine(pod) == machine
    check_kept(world, pod)


# Patience


@pytest.mark.parametrize("refusals", [0, 3])
def test_promise_03_asking_again_and_again_is_told_as_it_happens(world, refusals):
    pod = prepared(world, "stop")
    machine = world.machine(pod)
    asked = world.seconds
    world.alpha.delete_fails = refusals
    world.alpha.delete_says_ok_but_stands = 5
    assert world.stop(pod).state == OperationState.SUCCEEDED
    events = world.events(pod)
    assert events.count("machine.give_up_refused") == refusals
    assert events.count("machine.terminating") == (0 if refusals else 1)
    assert events.count("machine.released") == 1
    assert world.signals.counts["GiveUpRefused"] == refusals
    gone = world.row(Machine, machine.id)
    assert gone.give_up_attempts == refusals + 5 + 2, "one ends it, one more look proves it"
    assert (gone.give_up_at - world._epoch).total_seconds() < asked + 20
    told = [e for e in rows(world, Event, pod.id) if e.type == "machine.give_up_refused"]
    assert [e.evidence["note"] for e in told] == ["500"] * refusals


def test_promise_03_the_pauses_between_looks_grow_up_to_a_minute(world):
    pod = world.launch()
    world.alpha.delete_says_ok_but_stands = 12
    looks = []
    world.after_step = lambda step, _: looks.append(world.seconds) if step == "AwaitGone" else None
    world.stop(pod)
    pauses = [round(later - sooner) for sooner, later in pairwise(looks)]
    assert pauses == [1, 1, 2, 4, 8, 16, 32, *[60] * 6]
    assert world.signals.counts["MachineStuckTerminating"] == 0


def busy_at_first(world, monkeypatch, call_name, busy_seconds):
    """When a provider is asked that is too busy the first time, and says until when."""
    asked, call = [], getattr(world.alpha, call_name)

    def answer(*args):
        asked.append(world.seconds)
        if len(asked) == 1:
            raise ProviderBusyError("429", retry_after_seconds=busy_seconds)
        return call(*args)

    monkeypatch.setattr(world.alpha, call_name, answer)
    return asked


@pytest.mark.parametrize("call_name", ["give_up", "get"])
def test_case_p15_who_cannot_end_a_machine_yet_is_asked_again_when_it_wants_to_be(
    world, monkeypatch, call_name
):
    pod = prepared(world, "stop")
    asked = busy_at_first(world, monkeypatch, call_name, 45)
    assert world.stop(pod).state == OperationState.SUCCEEDED
    first, second, *_ = asked
    assert 45 <= second - first < 50
    check_at_rest(world, pod)


def test_case_p15_a_machine_is_not_left_alone_for_as_long_as_its_provider_likes(world, monkeypatch):
    pod = prepared(world, "stop")
    asked = busy_at_first(world, monkeypatch, "give_up", 86_400)
    assert world.stop(pod).state == OperationState.SUCCEEDED
    first, second, *_ = asked
    assert LONGEST_AWAY_SECONDS <= second - first < LONGEST_AWAY_SECONDS + 5


def test_case_p15_a_repeated_step_does_not_come_too_early_either(world, monkeypatch):
    pod = prepared(world, "stop")
    machine = world.machine(pod)
    asked = busy_at_first(world, monkeypatch, "give_up", 45)
    operation = ask(world, pod, "stop")
    world.run(until=lambda: len(asked) == 1)
    world.app.give_up.ask(machine.id)
    assert len(asked) == 1
    assert world.row(Machine, machine.id).state == MachineState.TERMINATING
    world.run()
    assert world.operation(operation).state == OperationState.SUCCEEDED


# Failed starts


def test_a_failing_startup_script_is_not_held_against_the_host(world):
    pod = world.create()
    world.run(until=lambda: world.boxes() != [])
    world.box.fails[CommandKind.RUN] = 5
    world.run()
    assert world.pod(pod).state == PodState.STOPPED
    assert world.pod(pod).failed_hosts == ()


def test_a_host_without_a_name_cannot_be_avoided(world):
    offers = world.alpha.list_offers
    world.alpha.list_offers = lambda wanted: [replace(o, host=None) for o in offers(wanted)]
    world.alpha.boot_never = 1
    pod = world.launch()
    assert pod.state == PodState.RUNNING
    assert pod.failed_hosts == ()


def test_promise_05_a_start_that_fails_does_not_free_a_lease_that_is_another_pods(world):
    world.alpha.has_stock = world.beta.has_stock = False
    pod = world.create()
    lease = Lease(pod_id="pod_other", machine_id=None)

    def take(_):
        world.store.commit(Update(replace(world.volume(pod), lease=lease)))

    once_at(world, "before_step", "FailStart", take)
    world.run()
    assert world.pod(pod).state == PodState.STOPPED
    assert world.volume(pod).lease == lease


def test_promise_07_a_head_without_a_record_is_missed_before_money_is_spent(world):
    pod = prepared(world, "start")
    creates = world.alpha.creates
    world.store.commit(Delete(world.row(Snapshot, world.volume(pod).head)))
    operation = world.start(pod)
    assert operation.error["code"] == "snapshot_missing"
    assert world.alpha.creates == creates


def test_case_p7_a_contract_whose_price_is_not_told_is_not_taken_for_dear(world):
    pod = prepared(world, "start")
    get = world.alpha.get
    world.alpha.get = lambda machine: replace(get(machine), price_microusd_per_hour=None)
    operation = world.start(pod, max_price_microusd_per_hour=450_000, providers=("alpha",))
    assert operation.state == OperationState.SUCCEEDED


def test_a_cancel_while_the_agent_registers_comes_before_the_pod_is_called_restoring(world):
    pod = world.create()
    (operation,) = rows(world, Operation, pod.id)

    def cancel():
        world.store.before_commit = lambda: None
        world.app.cancel_operation.ask(world.account.id, operation.id)

    def watch(step, _):
        if step == "AwaitAgent" and world.machine(pod).registered_at is not None:
            world.before_step = lambda *_: None
            world.store.before_commit = cancel

    world.before_step = watch
    world.settle()
    assert world.operation(operation).state == OperationState.CANCELLED
    assert "pod.restoring" not in world.events(pod)
    assert rows(world, Machine, pod.id)[0].state == MachineState.RELEASED


def test_a_machine_is_called_returned_once_and_only_if_it_was_made(world):
    world.alpha.create_raises = [NoCapacityError("sold out")]
    world.alpha.boot_never = 1
    world.alpha.delete_says_ok_but_stands = 3
    pod = world.launch()
    assert pod.state == PodState.RUNNING
    assert world.events(pod).count("machine.intended") == 3
    assert world.events(pod).count("machine.returned") == 1
    check_at_rest(world, pod)
