"""What agents are told to do, and what becomes of a command when its step or its stop ends."""

from dataclasses import replace

import pytest
from asl import KilledError
from invariants import check_at_rest, rows
from scenes import ask, check_kept, hanging_in_capture, once_at, prepared

from podferry.domain.command import Command, CommandKind, CommandState
from podferry.domain.machine import MachineState
from podferry.domain.offer import Requirements
from podferry.domain.operation import Operation, OperationState, execution_name
from podferry.domain.pod import PodState, RunSpec
from podferry.services.pods import NewPod


def commands_of(world, operation):
    return [world.row(Command, c) for c in world.operation(operation).commands]


def die(_):
    raise KilledError


def test_promise_10_a_command_that_failed_while_nobody_waited_is_not_given_a_second_time(world):
    """Its failure is told to the step that runs again, in the agent's words."""
    pod = world.create()
    (operation,) = rows(world, Operation, pod.id)
    once_at(world, "after_step", "AwaitReady", die)
    world.run(until=lambda: world.boxes() != [])
    world.box.fails[CommandKind.RUN] = 1
    world.run()
    world.idle(5)
    (failed,) = commands_of(world, operation)
    assert failed.state == CommandState.FAILED
    world.reconcile()
    world.settle()
    assert commands_of(world, operation) == [failed]
    assert world.pod(pod).state == PodState.STOPPED
    assert world.pod(pod).last_error.code == "agent_failed"
    assert world.pod(pod).last_error.detail == "told to fail by the test"


def test_promise_02_a_pod_counts_as_running_again_when_its_agent_has_resumed_it(world):
    """Also if the execution of the stop that failed died meanwhile."""
    pod = prepared(world, "stop")
    world.box.fails[CommandKind.CAPTURE] = 9
    world.box.hangs.add(CommandKind.RESUME)
    operation = ask(world, pod, "stop")
    world.run(until=lambda: "ResumeMachine" in world.visited(operation))
    world.run(seconds=5)
    world.engine.kill_all()
    world.reconcile()
    world.run(seconds=20)
    assert world.pod(pod).state == PodState.STOPPING
    world.box.hangs.clear()
    world.settle()
    visited = world.engine.executions[execution_name(world.operation(operation))].visited
    assert "FailStopUnresumed" not in visited
    assert [c.kind for c in commands_of(world, operation)].count(CommandKind.RESUME) == 1
    world.box.fails.clear()
    check_kept(world, pod)


def test_a_stop_that_turns_back_withdraws_the_commands_that_are_open_and_no_others(world):
    pod = prepared(world, "stop")
    operation = hanging_in_capture(world, pod)
    world.run(seconds=5)
    world.app.cancel_operation.ask(world.account.id, operation.id)
    world.settle()
    ends = {c.step: (c.state, (c.error or {}).get("code")) for c in commands_of(world, operation)}
    assert ends == {
        "quiesce": (CommandState.SUCCEEDED, None),
        "capture-environment": (CommandState.FAILED, "withdrawn"),
        "capture-volume": (CommandState.FAILED, "withdrawn"),
        "resume": (CommandState.SUCCEEDED, None),
    }
    assert world.box.done.count(CommandKind.CANCEL) == 2
    captures = [c for c in commands_of(world, operation) if c.kind == CommandKind.CAPTURE]
    assert [c.arguments["parent"] for c in captures] == [None, None], "nothing is committed yet"
    world.box.hangs.clear()
    check_kept(world, pod)


def test_a_machine_that_counts_as_lost_is_given_no_command_by_the_next_stop(world):
    pod = prepared(world, "stop")
    box = world.box
    first = hanging_in_capture(world, pod)
    box.is_gone = box.is_dead = True

    def cancel(_):
        assert world.machine(pod).state == MachineState.LOST
        world.app.cancel_operation.ask(world.account.id, first.id)

    once_at(world, "before_step", "VerifyCaptures", cancel)
    world.settle()
    assert world.operation(first).state == OperationState.CANCELLED
    assert (world.pod(pod).state, world.machine(pod).state) == (
        PodState.RUNNING,
        MachineState.LOST,
    )
    second = world.stop(pod)
    assert commands_of(world, second) == []
    assert second.error["code"] == "machine_lost"
    check_at_rest(world, pod)


@pytest.mark.parametrize("gpu_count", [0, 1])
def test_promise_06_a_gpu_is_asked_for_an_answer_if_the_machine_has_one(world, gpu_count):
    offers = world.alpha.list_offers
    world.alpha.list_offers = lambda wanted: [
        replace(offer, gpu_count=gpu_count) for offer in offers(wanted)
    ]
    new = NewPod(
        name="pod", spec=RunSpec(image="a"), requirements=Requirements(gpu_count=gpu_count)
    )
    _, operation = world.app.create_pod.create(world.account.id, new)
    world.run()
    (run,) = commands_of(world, operation)
    assert run.arguments["require_gpu"] == (gpu_count > 0)
