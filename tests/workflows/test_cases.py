"""Inputs that other systems got wrong, as far as they go through several services."""

from dataclasses import replace
from datetime import timedelta

import pytest
from crashing_store import Crash
from invariants import check_at_rest
from recovery_scenes import evidence, saved_pod, say, take_away
from saving_scenes import running, shown
from scenes import DATA, ask, check_kept, prepared

from podferry.domain.command import CommandKind
from podferry.domain.errors import InvalidRequestError, WrongStateError
from podferry.domain.machine import Machine, MachineState
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause, Operation, OperationState
from podferry.domain.pod import PodState, RunSpec
from podferry.domain.snapshot import SnapshotKind, object_key
from podferry.domain.state_word import StateWord
from podferry.ports.gpu_cloud import ViewState
from podferry.services.pods import NewPod, PodChange
from tests.contract.entities import container_boots


def work_for_hours(world, hours):
    """Its agent is busy and says so, with one beat each minute, less would be silence."""
    for _ in range(hours * 72):
        world.clock.advance(timedelta(seconds=50))
        for box in world.boxes():
            box.beat()
        world.engine.step()


def test_case_s2_a_capture_that_exceeds_its_time_keeps_the_machine_until_the_loss_is_taken(world):
    pod = saved_pod(world)
    saved_at = world.volume(pod).saved_at
    world.box.has_timer = False
    world.box.hangs.add(CommandKind.CAPTURE)
    stop = ask(world, pod, "stop")
    work_for_hours(world, 50)
    world.settle()
    assert world.operation(stop).state == OperationState.FAILED
    assert world.pod(pod).state == PodState.RUNNING
    assert world.machine(pod).state == MachineState.READY
    assert world.box.volume["work"] == "not saved"
    accepted = world.stop(pod, accept_loss=True)
    work_for_hours(world, 50)
    world.settle()
    assert any("volume" in line for line in world.operation(accepted).lost)
    assert world.pod(pod).recovered_from.saved_at == saved_at
    assert world.pod(pod).recovered_from.age_seconds > 0
    world.start(pod)
    assert world.box.volume["work"] == "saved"


@pytest.mark.parametrize("cause", list(Cause))
def test_case_s6_every_reason_to_stop_saves_the_same(world, cause):
    pod = prepared(world, "stop")
    stop = world.app.stop_pod.ask(world.account.id, pod.id, accept_loss=False, cause=cause)
    world.run()
    assert world.operation(stop).state == OperationState.SUCCEEDED
    assert world.operation(stop).is_verified
    check_kept(world, pod)


def test_case_s10_a_stop_while_a_save_is_under_way_keeps_what_that_save_would_have_had(world):
    pod = prepared(world, "stop")
    world.box.holds_saves = True
    world.app.save_pod.ask(world.account.id, pod.id, None)
    world.live(0.5)
    assert world.volume(pod).saving.open_id is not None
    assert world.stop(pod).state == OperationState.SUCCEEDED
    check_kept(world, pod)


def test_case_s10_what_is_left_behind_is_said_and_only_if_that_was_asked_for(world):
    pod = prepared(world, "stop")
    world.box.fails[CommandKind.CAPTURE] = 100
    assert world.stop(pod).state == OperationState.FAILED
    with pytest.raises(WrongStateError, match="stop it first"):
        world.app.delete_pod.delete(world.account.id, pod.id)
    assert world.box.volume == DATA
    lossy = world.stop(pod, accept_loss=True)
    assert lossy.state == OperationState.SUCCEEDED
    assert [line.partition(" since")[0] for line in lossy.result["lost"]] == [
        "changes of the environment",
        "changes of the volume",
    ]


def test_case_s14_another_disk_or_image_never_resets_what_runs(world):
    pod = prepared(world, "stop")
    box, account = world.box, world.account.id
    bigger = PodChange(requirements=Requirements(gpu_count=1, disk_gib=150))
    world.app.change_pod.change(account, pod.id, bigger, revision=None)
    other_image = PodChange(spec=RunSpec(image="debian:13"))
    with pytest.raises(InvalidRequestError, match="image"):
        world.app.change_pod.change(account, pod.id, other_image, revision=None)
    world.idle(120)
    assert world.box is box
    assert world.box.volume == DATA
    world.stop(pod)
    world.start(pod)
    assert world.box.request.disk_gib == 150
    check_kept(world, pod)


def test_case_s14_a_pod_that_never_ran_may_take_another_image(world):
    new = NewPod(
        name="pod", spec=RunSpec(image="debian:12"), requirements=Requirements(), start=False
    )
    pod, _ = world.app.create_pod.create(world.account.id, new)
    change = PodChange(spec=RunSpec(image="debian:13"))
    world.app.change_pod.change(world.account.id, pod.id, change, revision=None)
    world.start(pod)
    base = world.pod(pod).base
    assert (base.reference, world.box.request.image) == ("debian:13", base.pinned)


def test_case_s15_an_upload_that_fails_after_the_stop_was_taken_keeps_the_machine(world):
    """Taken is not done: the last pack never arrives, whatever the agent believes."""
    pod = prepared(world, "stop")

    def lose(kind: SnapshotKind, snapshot_id: str, name: str) -> None:
        if kind == SnapshotKind.VOLUME:
            world.objects.remove(kind, object_key(world.account.id, snapshot_id, name))

    world.after_capture = lose
    stop = world.stop(pod)
    assert stop.state == OperationState.FAILED
    assert stop.error["code"] in {"snapshot_missing", "snapshot_unverified"}
    assert world.machine(pod).clearance is None
    assert world.box.volume == DATA
    world.after_capture = lambda *_: None
    check_kept(world, pod)


def test_case_r2_of_two_machines_the_one_that_vanished_is_missed_and_the_other_goes_on(world):
    """Nobody reports it, and its pod is said to run: what is there is compared with what should."""
    lost, well = saved_pod(world), world.launch()
    other = world.machine(well).id
    world.watch(1)
    gone = next(b for b in world.boxes() if b.provider_id == world.machine(lost).provider_id)
    take_away(world, gone)
    world.watch(10)
    assert world.pod(lost).state == world.pod(well).state == PodState.RUNNING
    assert world.machine(lost).provider_id != gone.provider_id
    assert world.machine(well).id == other
    assert evidence(world, lost, "machine.lost")["provider_says"] == "gone"


def test_case_r3_a_machine_that_is_reclaimed_while_it_restores_is_replaced(world):
    pod = prepared(world, "start")
    start = ask(world, pod, "start")
    world.run(until=lambda: world.pod(pod).state == PodState.RESTORING)
    world.box.hangs.add(CommandKind.RESTORE)
    world.run(seconds=5)
    take_away(world)
    world.settle()
    assert world.operation(start).state == OperationState.SUCCEEDED
    check_kept(world, pod)


def test_case_r5_errors_of_the_transport_are_never_final(world):
    """An agent that is not heard for a while and a provider that does not answer prove nothing."""
    pod = running(world, has_timer=True)
    machine = world.machine(pod)
    for minutes in (0.5, 1, 5):
        world.is_silent, world.alpha.is_down = True, True
        world.watch(minutes)
        world.is_silent, world.alpha.is_down = False, False
        world.watch(1)
        assert world.machine(pod).id == machine.id
        assert shown(world, pod).running.word(world.clock.now()) == StateWord.RUNNING
    assert world.pod(pod).last_error is None


def test_case_p1_a_function_that_dies_between_the_create_and_its_write_makes_one_machine(world):
    create = world.alpha.create

    def dying(request):
        world.alpha.create = create
        create(request)
        raise Crash

    world.alpha.create = dying
    pod = world.create()
    world.settle()
    assert world.crashes == 1
    assert world.alpha.creates + world.beta.creates == 1
    assert world.pod(pod).state == PodState.RUNNING
    check_at_rest(world, pod)


@pytest.mark.parametrize(("deadline", "machines"), [(1500, 1), (600, 2)])
def test_case_p5_a_boot_may_take_as_long_as_its_provider_needs(world, deadline, machines):
    """A slow provider's machine is not killed at the deadline of a quick one."""
    world.alpha.traits = replace(world.alpha.traits, boots=container_boots(deadline))
    pod = world.create()
    world.run(until=lambda: len(world.boxes()) == 1)
    world.box.next_beat = world.seconds + 1400
    world.run()
    assert world.pod(pod).state == PodState.RUNNING
    assert world.alpha.creates == machines
    check_at_rest(world, pod)


@pytest.mark.parametrize("exists", [True, False])
def test_case_p8_a_cancel_while_the_create_call_is_under_way_leaves_no_machine(world, exists):
    create = world.alpha.create

    def cancelling(request):
        operation = next(iter(world.store.list_active(Operation)))
        world.app.cancel_operation.ask(world.account.id, operation.id)
        world.alpha.create_fails_but_exists = int(exists)
        return create(request)

    world.alpha.create = cancelling
    pod = world.create()
    with pytest.raises(WrongStateError, match="is at work on it"):
        world.app.delete_pod.delete(world.account.id, pod.id)
    world.settle()
    assert world.alpha.creates == 1
    assert world.boxes() == []
    check_at_rest(world, pod)
    world.app.delete_pod.delete(world.account.id, pod.id)
    assert world.pod(pod).state == PodState.DELETED


@pytest.mark.parametrize("code", ["gpu_unusable", "ssh_probe_failed"])
def test_case_p17_a_machine_that_runs_and_is_not_usable_gives_way_to_the_next(world, code):
    pod = world.create()
    world.run(until=lambda: len(world.boxes()) == 1)
    world.box.fails[CommandKind.RUN], world.box.failure_code = 5, code
    world.settle()
    assert world.pod(pod).state == PodState.RUNNING
    assert world.alpha.creates == 2
    assert len(world.pod(pod).failed_hosts) == 1
    check_at_rest(world, pod)


def test_case_p3_a_stop_while_the_provider_is_down_costs_until_the_machine_is_proven_gone(world):
    pod = prepared(world, "stop")
    machine = world.machine(pod)
    stop = ask(world, pod, "stop")
    world.run(until=lambda: "GiveUpMachine" in world.visited(stop))
    world.alpha.is_down, world.alpha.delete_fails = True, 10_000
    world.run(seconds=3000)
    assert world.row(Machine, machine.id).state == MachineState.TERMINATING
    assert world.pod(pod).state == PodState.STOPPING
    assert world.signals.counts["MachineStuckTerminating"] > 0
    world.alpha.is_down, world.alpha.delete_fails = False, 0
    world.settle()
    receipt = world.operation(stop).result
    assert receipt["cost_microusd"] > world.alpha.price * 3000 // 3600
    check_kept(world, pod)


def test_case_p4_a_machine_that_never_existed_is_a_failed_launch(world):
    """The create call gave an id, and nothing is behind it."""
    create = world.alpha.create

    def pretending(request):
        world.alpha.create = create
        provider_id = create(request)
        world.alpha.boxes[provider_id].is_gone = True
        return provider_id

    world.alpha.create = pretending
    pod = world.create()
    world.settle()
    assert world.pod(pod).state == PodState.RUNNING
    assert world.alpha.creates == 2
    check_at_rest(world, pod)


def test_case_p9_a_machine_that_is_too_young_to_be_listed_is_kept(world):
    world.alpha.listing_lag_seconds = 15
    pod = world.launch()
    assert world.pod(pod).state == PodState.RUNNING
    assert world.alpha.creates == 1
    check_at_rest(world, pod)


@pytest.mark.parametrize("word", [ViewState.PROVISIONING, ViewState.UNKNOWN])
def test_case_p12_an_agent_that_speaks_counts_more_than_a_slow_list(world, word):
    """Its provider goes on calling a machine young that has long been at work."""
    pod = world.create()
    world.run(until=lambda: len(world.boxes()) == 1)
    say(world, world.box, word, "creating")
    world.watch(30)
    assert world.pod(pod).state == PodState.RUNNING
    assert world.alpha.creates == 1


def test_case_p13_machines_that_never_report_are_replaced_one_after_the_other(world):
    world.alpha.boot_never = 2
    pod = world.create()
    world.run(seconds=2 * 3600)
    assert world.pod(pod).state == PodState.RUNNING
    assert world.machine(pod).offer.provider == "beta"
    assert len(world.boxes()) == 1
    check_at_rest(world, pod)


def test_case_p16_a_machine_that_was_unreachable_and_returns_is_used_again(world):
    pod = running(world, has_timer=True)
    world.box.is_dead = True
    world.watch(2)
    assert shown(world, pod).running.word(world.clock.now()) == StateWord.UNREACHABLE
    world.box.is_dead = False
    world.box.volume = dict(DATA)
    world.watch(7)
    assert shown(world, pod).running.word(world.clock.now()) == StateWord.RUNNING
    assert world.alpha.creates == 1
    assert world.volume(pod).head is not None
    check_at_rest(world, pod)
