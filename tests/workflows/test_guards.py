"""Each step's own guards, one by one: what a later step would catch as well, only later."""

from dataclasses import replace

import pytest
from asl import KilledError
from invariants import check_at_rest, rows
from scenes import LAUNCH, STOP, ask, check_kept, hanging_in_capture, once_at, prepared

from podferry.domain.command import Command, CommandKind
from podferry.domain.errors import NoCapacityError
from podferry.domain.machine import Clearance, Machine, MachineState
from podferry.domain.operation import Operation, OperationState, execution_name
from podferry.domain.pod import PodState
from podferry.ports.store import Update
from tests.contract.entities import container_boots

BEFORE_THE_COMMIT = STOP[: STOP.index("CommitHeads") + 1]
UNDOABLE = [*(("start", step) for step in LAUNCH), *(("stop", step) for step in BEFORE_THE_COMMIT)]


def steps_given(world, operation):
    """The steps whose commands an agent was given, in order."""
    return [world.row(Command, c).step for c in world.operation(operation).commands]


def last_visited(world, operation):
    """The states of the newest execution."""
    return world.engine.executions[execution_name(world.operation(operation))].visited


def cancel(world, operation_id):
    world.app.cancel_operation.ask(world.account.id, operation_id)


# A wish that was withdrawn


@pytest.mark.parametrize(("kind", "step"), UNDOABLE)
def test_promise_10_the_very_step_before_which_a_cancel_came_turns_back(world, kind, step):
    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    once_at(world, "before_step", step, lambda o: cancel(world, o))
    world.settle()
    order = {"start": LAUNCH, "stop": STOP}[kind]
    later = set(order[order.index(step) + 1 :]) - {"CaptureVolume"}
    assert world.visited(operation).count(step) == 1
    assert not later & set(world.visited(operation))
    words = {"RestoreEnvironment": "restore-environment", "RestoreVolume": "restore-volume"}
    words |= {"CaptureEnvironment": "capture-environment", "CaptureVolume": "capture-volume"}
    words |= {"AwaitReady": "run", "Quiesce": "quiesce"}
    assert words.get(step) not in steps_given(world, operation)
    check_kept(world, pod)


@pytest.mark.parametrize("step", ["CheckTarget", "StopHalf", "StartHalf"])
def test_promise_10_the_very_step_of_a_move_before_which_a_cancel_came_turns_back(world, step):
    pod = prepared(world, "move")
    move = ask(world, pod, "move")
    once_at(world, "before_step", step, lambda o: cancel(world, o))
    world.settle()
    order = ("CheckTarget", "StopHalf", "StartHalf", "FinishMove")
    assert not set(order[order.index(step) + 1 :]) & set(world.visited(move))
    begun = [half for half in move.halves if world.store.find(Operation, half) is not None]
    assert len(begun) == (1 if step == "StartHalf" else 0)
    check_kept(world, pod)


@pytest.mark.parametrize("step", ["StopHalf", "StartHalf"])
def test_promise_10_no_half_is_begun_for_a_move_that_changed_at_that_moment(world, step):
    pod = prepared(world, "move")
    move = ask(world, pod, "move")
    late = move.halves[("StopHalf", "StartHalf").index(step)]

    def withdraw():
        world.store.before_commit = lambda: None
        world.store.commit(Update(replace(world.operation(move), is_cancel_asked=True)))

    once_at(world, "before_step", step, lambda _: setattr(world.store, "before_commit", withdraw))
    world.settle()
    assert world.operation(move).state == OperationState.CANCELLED
    assert world.store.find(Operation, late) is None


def test_a_cancel_while_a_failed_machine_goes_back_is_not_answered_with_another_offer(world):
    world.alpha.boot_never = 9
    pod = world.create()
    operation = world.operation(rows(world, Operation, pod.id)[0])
    once_at(world, "after_step", "ReturnMachine", lambda o: cancel(world, o))
    world.settle()
    assert world.operation(operation).state == OperationState.CANCELLED
    assert world.visited(operation).count("ChooseOffer") == 1
    check_at_rest(world, pod)


# A machine that is given back


def test_an_execution_that_finds_its_machine_being_given_back_goes_on_giving_it_back(world):
    world.alpha.boot_never = 1
    world.alpha.delete_says_ok_but_stands = 2
    pod = world.create()
    operation = rows(world, Operation, pod.id)[0]

    def die(_):
        raise KilledError

    once_at(world, "after_step", "ReturnMachine", die)
    world.run()
    world.reconcile()
    world.settle()
    visited = last_visited(world, operation)
    assert "Rent" not in visited[: visited.index("ReturnMachine")]
    assert world.pod(pod).state == PodState.RUNNING
    check_at_rest(world, pod)


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize("moment", ["before the step", "before its claim"])
def test_promise_04_nothing_is_rented_for_a_machine_that_is_being_given_back(
    world, moment, is_asked
):
    """By another run of the step that gives it back, which outlived its execution.

    It has asked the provider already, or has only just cleared the machine.
    """
    pod = world.create()
    operation = rows(world, Operation, pod.id)[0]

    def give_back(*_):
        world.store.before_commit = lambda: None
        if is_asked:
            world.step_again("ReturnMachine", operation.id)
        else:
            cleared = replace(world.machine(pod), clearance=Clearance.NEVER_READY)
            world.store.commit(Update(cleared))

    if moment == "before the step":
        once_at(world, "before_step", "Rent", give_back)
    else:
        once_at(
            world, "before_step", "Rent", lambda _: setattr(world.store, "before_commit", give_back)
        )
    world.settle()
    assert world.alpha.creates == 1, "only for the next machine"
    assert "WaitForListing" not in world.visited(operation)
    states = sorted(machine.state for machine in rows(world, Machine, pod.id))
    assert states == [MachineState.READY, MachineState.RELEASED]
    check_at_rest(world, pod)


def test_promise_05_an_agent_on_a_machine_that_its_provider_denies_to_have_made_stays_outside(
    world,
):
    create = world.alpha.create

    def denied(request):
        world.alpha.create = create
        create(request)
        raise NoCapacityError("sold out")

    world.alpha.create = denied
    pod = world.create()
    world.run(until=lambda: world.alpha.boxes != {})
    ghost = world.alpha.boxes["alpha-1"]
    ghost.beat()
    assert ghost.was_told_to_end
    world.alpha.give_up("alpha-1")
    world.settle()
    assert world.pod(pod).state == PodState.RUNNING
    check_at_rest(world, pod)


def test_promise_05_an_agent_that_wakes_after_its_machine_counted_as_lost_is_told_to_end(world):
    pod = prepared(world, "stop")
    box = world.box
    hanging_in_capture(world, pod)
    box.is_gone = box.is_dead = True

    def wake(_):
        machine = world.machine(pod)
        assert (machine.state, machine.give_up_at) == (MachineState.LOST, None)
        box.beat()

    once_at(world, "before_step", "CommitHeads", wake)
    world.settle()
    assert box.was_told_to_end
    check_at_rest(world, pod)


# Commands


@pytest.mark.parametrize("kind", ["start", "stop"])
def test_promise_10_a_step_that_runs_again_takes_up_the_newest_of_its_commands(world, kind):
    """The older one failed, or went to a machine that was given back since."""
    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    if kind == "start":
        step, word = "restore-environment", CommandKind.RESTORE
        once_at(
            world,
            "after_step",
            "RestoreEnvironment",
            lambda _: [setattr(box, "is_dead", True) for box in world.boxes()],
        )
    else:
        step, word = "capture-environment", CommandKind.CAPTURE
        world.box.fails[word] = 1
    world.run(until=lambda: steps_given(world, operation).count(step) == 2)
    for box in world.boxes():
        box.hangs.add(word)
    world.engine.kill_all()
    world.reconcile()
    world.run(seconds=20)
    for box in world.boxes():
        box.hangs.clear()
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert steps_given(world, operation).count(step) == 2
    check_kept(world, pod)


# The last steps


@pytest.mark.parametrize("moment", ["before the step", "before its write"])
@pytest.mark.parametrize("change", ["epoch", "clearance"])
def test_promise_05_a_pod_does_not_run_on_a_machine_that_is_not_its_own_any_more(
    world, change, moment
):
    pod = prepared(world, "start")
    operation = ask(world, pod, "start")

    def take_away(*_):
        world.store.before_commit = lambda: None
        row = world.volume(pod) if change == "epoch" else world.machine(pod)
        value = row.epoch + 1 if change == "epoch" else Clearance.NEVER_READY
        world.store.commit(Update(replace(row, **{change: value})))

    def watch(_):
        world.store.before_commit = take_away

    once_at(
        world, "before_step", "FinishStart", take_away if moment == "before the step" else watch
    )
    world.settle()
    assert world.operation(operation).error["code"] == "internal"
    assert world.boxes() == []
    check_kept(world, pod)


@pytest.mark.parametrize("step", ["restore-environment", "restore-volume", "run"])
def test_promise_06_a_pod_does_not_run_without_the_result_of_each_step(world, step):
    pod = prepared(world, "start")
    operation = ask(world, pod, "start")

    def forget(_):
        fresh = world.operation(operation)
        rest = tuple(c for c in fresh.commands if world.row(Command, c).step != step)
        world.store.commit(Update(replace(fresh, commands=rest)))

    once_at(world, "before_step", "FinishStart", forget)
    world.settle()
    assert world.operation(operation).state == OperationState.FAILED
    check_kept(world, pod)


def test_promise_06_a_pod_does_not_run_if_what_makes_it_usable_failed(world):
    pod = world.create()
    world.run(until=lambda: world.boxes() != [])
    world.box.fails[CommandKind.RUN] = 1
    once_at(world, "before_step", "ReturnMachine", lambda o: world.step_again("FinishStart", o))
    world.settle()
    assert world.pod(pod).state == PodState.STOPPED
    assert "pod.running" not in world.events(pod)
    check_at_rest(world, pod)


@pytest.mark.parametrize("trouble", [None, "capture", "boot", "loss"])
def test_a_move_hears_at_once_how_each_half_of_it_ended(world, trouble):
    """Its own steps would look again only after minutes of silence."""
    pod = prepared(world, "move")
    if trouble == "capture":
        world.box.fails[CommandKind.CAPTURE] = 9
    if trouble == "loss":
        world.idle(120)
        world.box.is_gone = True
    world.beta.traits = replace(world.beta.traits, boots=container_boots(30))
    world.beta.boot_never = 9 if trouble == "boot" else 0
    began = world.seconds
    move = world.move(pod, providers=("beta",))
    assert move.state == (OperationState.FAILED if trouble else OperationState.SUCCEEDED)
    assert world.seconds - began < 200
    assert list(world.store.list_active(Operation)) == []
