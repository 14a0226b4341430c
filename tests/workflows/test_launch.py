"""Launches and starts: restore, then ready."""

from dataclasses import replace

import pytest
from invariants import rows

from podferry.domain.command import CommandKind
from podferry.domain.errors import (
    NoCapacityError,
    ProviderBusyError,
    ProviderRefusedError,
    VolumeBusyError,
    WrongStateError,
)
from podferry.domain.machine import Machine, MachineState
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause, OperationState
from podferry.domain.pod import PodState, RunSpec
from podferry.domain.snapshot import SnapshotKind, SnapshotState, object_key
from podferry.domain.use_of_volume import Attachment
from podferry.ports.store import Update
from podferry.services.pods import NewPod


def test_a_launch_passes_every_state_and_ends_running(world):
    pod = world.launch()
    assert pod.state == PodState.RUNNING
    (operation,) = world.engine.executions.values()
    assert operation.status == "SUCCEEDED"
    assert [s for s in operation.visited if not s.startswith(("Wait", "Is", "Are"))] == [
        "Prepare",
        "BeginStart",
        "CheckSnapshots",
        "ChooseOffer",
        "Rent",
        *["AwaitAgent"] * operation.visited.count("AwaitAgent"),
        "RestoreEnvironment",
        "RestoreVolume",
        "AwaitReady",
        "FinishStart",
        "Running",
    ]
    assert world.machine(pod).state == MachineState.READY


def test_promise_04_a_create_that_answers_500_though_the_box_exists_is_adopted(world):
    world.alpha.create_fails_but_exists = 1
    pod = world.launch()
    assert pod.state == PodState.RUNNING
    assert world.alpha.creates == 1
    assert len(world.boxes()) == 1


def test_promise_04_a_create_that_answers_500_and_made_nothing_is_given_up_and_the_next_tried(
    world,
):
    world.alpha.create_fails_and_nothing_exists = 1
    pod = world.launch()
    assert pod.state == PodState.RUNNING
    assert len(world.boxes()) == 1
    assert world.alpha.creates == 2


def test_case_p4_a_machine_that_never_boots_is_returned_and_the_next_offer_is_taken(world):
    world.alpha.boot_never = 1
    pod = world.launch()
    assert pod.state == PodState.RUNNING
    assert len(world.boxes()) == 1
    assert [f.host for f in pod.failed_hosts] == ["host-1"]
    assert "machine.returned" in world.events(pod)


def test_case_r6_a_start_without_capacity_leaves_the_pod_stopped_with_the_reason(world):
    world.alpha.has_stock = world.beta.has_stock = False
    pod = world.launch()
    assert pod.state == PodState.STOPPED
    assert pod.last_error is not None
    assert pod.last_error.code == NoCapacityError.code
    assert world.volume(pod).lease is None


def test_case_r8_a_pod_that_may_wait_waits_for_capacity_and_starts_when_there_is_some(world):
    world.alpha.has_stock = world.beta.has_stock = False
    pod = world.create(capacity_wait_seconds=600)
    world.run(until=lambda: world.pod(pod).state == PodState.WAITING_FOR_CAPACITY)
    assert world.pod(pod).state == PodState.WAITING_FOR_CAPACITY
    world.beta.has_stock = True
    world.run()
    assert world.pod(pod).state == PodState.RUNNING


def test_a_provider_that_refuses_does_not_stop_a_start_elsewhere(world):
    world.alpha.create_raises = [ProviderRefusedError("no money")]
    pod = world.launch()
    assert pod.state == PodState.RUNNING
    assert world.alpha.creates == 1
    assert len(world.beta.standing()) == 1


def test_case_p7_a_contract_dearer_than_the_cap_is_given_back(world):
    pod = world.launch()
    world.stop(pod)

    def bump(request, create=world.alpha.create):
        world.alpha.price = 900_000
        return create(request)

    world.alpha.create = bump
    operation = world.start(pod, max_price_microusd_per_hour=450_000, providers=("alpha",))
    assert operation.state == OperationState.FAILED
    assert operation.error["code"] == "price_raised"
    refused = rows(world, Machine, pod.id)[0]
    assert refused.shown_at is not None
    assert refused.looked_at is None, "a step that is run again refuses it again"
    assert world.boxes() == []
    assert world.pod(pod).state == PodState.STOPPED


def test_two_starts_at_once_one_wins_and_the_other_is_refused(world):
    pod = world.launch()
    world.stop(pod)
    world.app.start_pod.ask(world.account.id, pod.id, None, Cause.USER)
    with pytest.raises(WrongStateError):
        world.app.start_pod.ask(world.account.id, pod.id, None, Cause.USER)
    world.run()
    assert world.pod(pod).state == PodState.RUNNING
    assert len(world.boxes()) == 1


def test_promise_05_a_volume_in_use_by_another_pod_is_refused(world):

    pod = world.launch()
    with pytest.raises(VolumeBusyError):
        world.app.create_pod.create(
            world.account.id,
            NewPod(
                name="second",
                spec=RunSpec(image="debian:12"),
                requirements=Requirements(),
                volume=Attachment(volume_id=pod.volume_id),
            ),
        )


@pytest.mark.parametrize("kind", list(SnapshotKind))
@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_promise_07_a_start_with_a_damaged_snapshot_fails_and_loses_nothing(world, kind, damage):
    pod = world.launch()
    world.box.volume = {"a": "1"}
    world.stop(pod)
    head = world.pod(pod).environment_head
    if kind == SnapshotKind.VOLUME:
        head = world.volume(pod).head
    (pack,) = [
        k for k in world.objects.keys(kind) if k.startswith(f"{world.account.id}/{head}/packs")
    ]
    good = world.objects.read(kind, pack)
    if damage == "missing":
        world.objects.remove(kind, pack)
    else:
        world.objects.put(kind, pack, b"x" * len(good))
    creates = world.alpha.creates
    operation = world.start(pod)
    assert operation.state == OperationState.FAILED
    assert operation.error["code"] == f"snapshot_{damage}"
    assert world.pod(pod).state == PodState.STOPPED
    assert world.alpha.creates == creates, "no money is spent on a start that cannot work"
    world.objects.put(kind, pack, good)
    assert world.start(pod).state == OperationState.SUCCEEDED
    assert world.box.volume == {"a": "1"}


def test_case_s1_a_start_never_begins_empty_when_a_root_is_gone(world):
    pod = world.launch()
    world.stop(pod)
    head = world.volume(pod).head
    world.objects.remove(SnapshotKind.VOLUME, object_key(world.account.id, head, "root"))
    operation = world.start(pod)
    assert operation.error["code"] == "snapshot_missing"
    assert world.volume(pod).head == head


def test_promise_07_a_head_that_is_not_committed_is_never_restored(world):
    pod = world.launch()
    world.stop(pod)
    head = world.snapshot(world.volume(pod).head)
    world.store.commit(Update(replace(head, state=SnapshotState.ABANDONED)))
    creates = world.alpha.creates
    world.start(pod)
    assert world.pod(pod).state == PodState.STOPPED
    assert world.alpha.creates == creates


def test_a_cancel_at_the_moment_of_renting_comes_before_the_money_is_spent(world):
    pod = world.create()

    def cancel():
        world.store.before_commit = lambda: None
        world.app.cancel_operation.ask(world.account.id, world.pod(pod).operation_id)

    def watch(step, _):
        if step == "Rent":
            world.before_step = lambda *_: None
            world.store.before_commit = cancel

    world.before_step = watch
    world.settle()
    assert world.pod(pod).state == PodState.STOPPED
    assert world.alpha.creates == 0


def test_a_cancel_during_a_launch_wins_and_the_machine_goes_back(world):
    pod = world.create()
    operation_id = world.pod(pod).operation_id
    world.run(until=lambda: len(world.boxes()) == 1)
    world.app.cancel_operation.ask(world.account.id, operation_id)
    world.run()
    assert world.pod(pod).state == PodState.STOPPED
    assert world.boxes() == []
    machines = world.store.list_owned(Machine, pod.id).items
    assert [m.state for m in machines] == [MachineState.RELEASED]
    assert world.pod(pod).last_error is None


def test_case_r3_a_machine_that_goes_silent_during_restore_is_replaced(world):
    pod = world.launch()
    world.box.volume = {"a": "1"}
    world.stop(pod)
    world.app.start_pod.ask(world.account.id, pod.id, None, Cause.USER)
    world.run(until=lambda: world.pod(pod).state == PodState.RESTORING)
    world.box.is_dead = True
    world.run()
    assert world.pod(pod).state == PodState.RUNNING
    assert world.box.volume == {"a": "1"}
    assert len(world.boxes()) == 1


def test_a_startup_script_that_fails_is_the_users_failure_and_is_not_tried_elsewhere(world):

    pod = world.create()
    world.run(until=lambda: len(world.boxes()) == 1)
    world.box.fails[CommandKind.RUN] = 5
    world.run()
    assert world.pod(pod).state == PodState.STOPPED
    assert world.pod(pod).last_error.code == "agent_failed"
    assert world.alpha.creates == 1
    assert world.boxes() == []


def test_promise_04_a_machine_whose_agent_registers_before_the_create_is_settled_can_be_given_up(
    world,
):
    world.alpha.create_fails_but_exists = 1
    pod = world.launch()
    assert world.machine(pod).provider_id == "alpha-1"
    assert world.stop(pod).state == OperationState.SUCCEEDED
    assert world.boxes() == []


def test_a_provider_that_stays_busy_ends_the_launch_with_nothing_left(world):

    for cloud in (world.alpha, world.beta):
        cloud.create_raises = [ProviderBusyError("busy") for _ in range(200)]
    pod = world.create()
    world.settle()
    assert world.pod(pod).state == PodState.STOPPED
    assert world.pod(pod).last_error.code == "provider_busy"
    machines = world.store.list_owned(Machine, pod.id, limit=100).items
    assert {m.state for m in machines} == {MachineState.RELEASED}


@pytest.mark.parametrize("exists", [True, False])
def test_a_cancel_while_the_outcome_of_a_create_is_unknown_leaves_nothing_standing(world, exists):
    if exists:
        world.alpha.create_fails_but_exists = 1
        world.alpha.boot_never = 1
    else:
        world.alpha.create_fails_and_nothing_exists = 1
    pod = world.create()
    world.run(until=lambda: world.alpha.creates == 1)
    world.app.cancel_operation.ask(world.account.id, world.pod(pod).operation_id)
    world.settle()
    assert world.pod(pod).state == PodState.STOPPED
    assert world.boxes() == []


def test_a_pod_made_without_starting_can_be_started_later(world):

    new = NewPod(name="later", spec=RunSpec(image="a"), requirements=Requirements(), start=False)
    pod, operation = world.app.create_pod.create(world.account.id, new)
    assert operation is None
    assert world.start(pod).state == OperationState.SUCCEEDED
    world.stop(pod)
    other = NewPod(
        name="other",
        spec=RunSpec(image="a"),
        requirements=Requirements(),
        volume=Attachment(volume_id=pod.volume_id),
    )
    second, _ = world.app.create_pod.create(world.account.id, other)
    world.run()
    assert world.pod(second).state == PodState.RUNNING
