"""Stops and moves that turn back: which reason is told, what is kept, how long a gate may fail."""

import pytest
from asl import StateError
from invariants import check_at_rest, check_data
from scenes import DATA, ask, check_kept, once_at, prepared

from podferry.domain.command import CommandKind
from podferry.domain.machine import MachineState
from podferry.domain.operation import Cause, OperationState
from podferry.domain.pod import PodState
from podferry.services.stop.turn_back import MOST_ASSESSMENTS


def gate_that_fails(world):
    """From now on the gate fails for a reason that says nothing of the captures."""

    def fail(step, _):
        if step == "VerifyCaptures":
            raise StateError("States.Timeout")

    world.before_step = fail


# How often a stop goes to its gate


def test_promise_02_a_gate_that_keeps_failing_turns_back_also_a_stop_that_accepts_the_loss(world):
    pod = prepared(world, "stop")
    gate_that_fails(world)
    operation = world.app.stop_pod.ask(world.account.id, pod.id, accept_loss=True, cause=Cause.USER)
    world.settle()
    ended = world.operation(operation)
    assert (ended.state, ended.assessments) == (OperationState.FAILED, MOST_ASSESSMENTS + 1)
    assert world.visited(operation).count("VerifyCaptures") == MOST_ASSESSMENTS + 1
    assert world.box.volume == DATA
    world.before_step = lambda *_: None
    check_kept(world, pod)


def test_promise_03_a_gate_that_keeps_failing_is_tried_again_later_if_the_machine_is_gone(world):
    pod = prepared(world, "stop")
    box = world.box
    operation = ask(world, pod, "stop")
    world.run(until=lambda: "Capture" in world.visited(operation))
    box.is_gone = True
    gate_that_fails(world)
    world.run()
    assert world.operation(operation).state == OperationState.RUNNING
    assert world.machine(pod).state == MachineState.LOST
    world.reconcile()
    world.run()
    assert world.events(pod).count("machine.lost") == 1
    world.before_step = lambda *_: None
    world.settle()
    assert world.pod(pod).state == PodState.STOPPED, "it does not stay between the two for good"
    check_at_rest(world, pod)


# Reasons


def test_promise_02_the_reason_for_which_a_stop_turned_back_first_is_the_one_that_is_told(world):
    pod = prepared(world, "stop")
    world.box.fails[CommandKind.CAPTURE] = 9
    operation = ask(world, pod, "stop")
    once_at(world, "before_step", "FailStop", lambda o: world.step_again("AssessStop", o))
    world.settle()
    assert world.operation(operation).error["code"] == "agent_failed"
    assert world.operation(operation).error["detail"].endswith("told to fail by the test")
    world.box.fails.clear()
    check_kept(world, pod)


def test_a_cancelled_stop_leaves_the_pods_last_error_as_it_was(world):
    pod = prepared(world, "stop")
    world.box.fails[CommandKind.CAPTURE] = 9
    world.stop(pod)
    before = world.pod(pod).last_error
    assert before is not None
    operation = ask(world, pod, "stop")
    once_at(
        world,
        "before_step",
        "Quiesce",
        lambda o: world.app.cancel_operation.ask(world.account.id, o),
    )
    world.settle()
    assert world.operation(operation).state == OperationState.CANCELLED
    assert world.pod(pod).last_error == before


# Moves


@pytest.mark.parametrize("step", ["Quiesce", "Rent"])
def test_promise_10_a_move_does_not_end_while_a_half_of_it_is_at_work(world, step):
    pod = prepared(world, "move")
    move = ask(world, pod, "move")
    happened = once_at(world, "before_step", step, lambda _: world.step_again("FailMove", move.id))
    world.settle()
    assert happened
    assert world.operation(move).state == OperationState.SUCCEEDED
    check_kept(world, pod)


def test_a_move_tells_the_receipts_of_both_its_halves(world):
    pod = prepared(world, "move")
    old = world.machine(pod).id
    result = world.move(pod, providers=("beta",)).result
    assert result["stop"]["machine_id"] == old
    assert result["stop"]["clearance"] == "captures_verified"
    assert result["start"]["machine_id"] == world.machine(pod).id


@pytest.mark.parametrize(
    ("trouble", "code"),
    [("capture", "agent_failed"), ("boot", "boot_failed"), ("stock", "no_capacity")],
)
def test_a_move_that_fails_says_what_failed_and_leaves_the_pod_where_it_is(world, trouble, code):
    pod = prepared(world, "move")
    world.box.fails[CommandKind.CAPTURE] = 9 if trouble == "capture" else 0
    world.beta.boot_never = 9 if trouble == "boot" else 0
    world.beta.has_stock = trouble != "stock"
    move = world.move(pod, providers=("beta",))
    assert (move.state, move.error["code"]) == (OperationState.FAILED, code)
    assert world.pod(pod).last_error.code == code
    assert world.pod(pod).state == (PodState.STOPPED if trouble == "boot" else PodState.RUNNING)
    for box in world.boxes():
        box.fails.clear()
    check_at_rest(world, pod)
    world.beta.boot_never = 0
    check_data(world, pod, DATA, "installed")


def test_a_cancelled_move_leaves_the_pods_last_error_as_it_was(world):
    pod = prepared(world, "move")
    assert world.pod(pod).last_error is None
    move = ask(world, pod, "move")
    once_at(
        world,
        "before_step",
        "CheckTarget",
        lambda o: world.app.cancel_operation.ask(world.account.id, o),
    )
    world.settle()
    assert world.operation(move).state == OperationState.CANCELLED
    assert world.pod(pod).last_error is None
