"""Crashes at every commit of every step, and restarts that kill all executions."""

import contextlib
from collections.abc import Callable

import pytest
from crashing_store import Crash
from world import World

from podferry.domain.command import CommandKind
from podferry.domain.errors import ConflictError
from podferry.domain.machine import FINAL_STATES, Machine
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause, Operation, OperationState
from podferry.domain.pod import Pod, PodState


def insist(world: World, ask: Callable[[], object]) -> None:
    """A user who hears nothing asks again; a refusal then means that it took effect."""
    try:
        ask()
    except Crash:
        world.crashes += 1
        with contextlib.suppress(ConflictError):
            ask()


def life(world: World) -> Pod | None:
    """Launch, edit, stop, start elsewhere: the scenario in which everything crashes."""
    insist(world, lambda: None if world.pods() else world.create())
    world.settle()
    pod = world.pods()[0]
    assert world.pod(pod).state == PodState.RUNNING
    world.box.volume = {"work": "ten days"}
    world.box.environment["/opt/tool"] = "installed"
    insist(
        world,
        lambda: world.app.stop_pod.ask(
            world.account.id, pod.id, accept_loss=False, cause=Cause.USER
        ),
    )
    world.settle()
    if world.pod(pod).state == PodState.STOPPED:
        insist(world, lambda: world.app.start_pod.ask(world.account.id, pod.id, None, Cause.USER))
        world.settle()
    return world.pod(pod)


def commits_of_a_life() -> int:
    world = World()
    world.store.commits = 0
    life(world)
    return world.store.commits


COMMITS = commits_of_a_life()


def check_nothing_is_lost(world: World, pod: Pod) -> None:
    assert list(world.store.list_active(Operation)) == [], "every operation is terminal"
    assert pod.state in {PodState.RUNNING, PodState.STOPPED}
    machines = world.store.list_owned(Machine, pod.id, limit=100).items
    alive = [m for m in machines if m.state not in FINAL_STATES]
    assert len(world.boxes()) == len(alive) <= 1, "no ghost, no double"
    if pod.state == PodState.RUNNING:
        assert world.box.volume == {"work": "ten days"}
        assert world.box.environment["/opt/tool"] == "installed"
        assert not world.box.is_paused


@pytest.mark.parametrize("after_writing", [False, True])
@pytest.mark.parametrize("number", range(1, COMMITS + 1))
def test_promise_10_a_crash_at_any_commit_loses_nothing(number, after_writing):
    world = World()
    world.store.commits = 0
    world.store.crash_at = number
    world.store.crash_after_writing = after_writing
    pod = life(world)
    assert world.crashes == 1
    check_nothing_is_lost(world, pod)


@pytest.mark.parametrize(
    "state",
    [
        "CheckSnapshots",
        "ChooseOffer",
        "Rent",
        "AwaitAgent",
        "RestoreEnvironment",
        "RestoreVolume",
        "AwaitReady",
    ],
)
def test_promise_10_a_start_whose_execution_dies_anywhere_is_finished(world, state):
    pod = world.launch()
    world.box.volume = {"a": "1"}
    world.stop(pod)
    operation = world.app.start_pod.ask(world.account.id, pod.id, None, Cause.USER)
    world.run(until=lambda: state in world.visited(operation))
    world.engine.kill_all()
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert world.operation(operation).execution == 2
    assert world.pod(pod).state == PodState.RUNNING
    assert world.box.volume == {"a": "1"}
    assert len(world.boxes()) == 1


@pytest.mark.parametrize(
    "state",
    [
        "BeginStop",
        "Quiesce",
        "Capture",
        "VerifyCaptures",
        "CommitHeads",
        "GiveUpMachine",
        "AwaitGone",
    ],
)
def test_promise_10_a_stop_whose_execution_dies_anywhere_is_finished(world, state):
    pod = world.launch()
    world.box.volume = {"a": "1"}
    operation = world.app.stop_pod.ask(
        world.account.id, pod.id, accept_loss=False, cause=Cause.USER
    )
    world.run(until=lambda: state in world.visited(operation))
    world.engine.kill_all()
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert world.pod(pod).state == PodState.STOPPED
    assert world.boxes() == []
    world.start(pod)
    assert world.box.volume == {"a": "1"}


@pytest.mark.parametrize("state", ["CheckTarget", "StopHalf", "StartHalf"])
def test_promise_10_a_move_whose_executions_die_anywhere_is_finished(world, state):
    pod = world.launch()
    world.box.volume = {"a": "1"}

    operation = world.app.move_pod.ask(
        world.account.id, pod.id, Requirements(providers=("beta",)), Cause.USER
    )
    world.run(until=lambda: state in world.visited(operation))
    world.engine.kill_all()
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert world.pod(pod).state == PodState.RUNNING
    assert world.beta.standing()[0].volume == {"a": "1"}
    assert world.alpha.standing() == []


def test_promise_10_a_move_that_has_begun_is_not_put_in_question_by_a_restart(world):
    pod = world.launch()
    world.box.volume = {"a": "1"}
    elsewhere = Requirements(providers=("beta",))
    operation = world.app.move_pod.ask(world.account.id, pod.id, elsewhere, Cause.USER)
    world.run(until=lambda: "StopHalf" in world.visited(operation))
    world.engine.kill_all()
    world.beta.has_stock = False
    world.reconcile()
    world.run(until=lambda: not world.alpha.standing())
    world.beta.has_stock = True
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert world.beta.standing()[0].volume == {"a": "1"}


def test_promise_10_a_cancel_reaches_a_step_that_is_just_taking_up_its_command_again(world):
    pod = world.launch()
    world.box.hangs.add(CommandKind.QUIESCE)
    operation = world.app.stop_pod.ask(
        world.account.id, pod.id, accept_loss=False, cause=Cause.USER
    )
    world.run(until=lambda: "Quiesce" in world.visited(operation))
    world.engine.kill_all()

    def cancel():
        world.store.before_commit = lambda: None
        world.app.cancel_operation.ask(world.account.id, operation.id)

    def watch(step, _):
        if step == "Quiesce":
            world.before_step = lambda *_: None
            world.store.before_commit = cancel

    world.before_step = watch
    world.reconcile()
    world.run(seconds=60)
    assert world.operation(operation).state == OperationState.CANCELLED
    assert not world.box.is_paused


def test_promise_17_the_schedule_is_on_while_something_runs_and_off_afterwards(world):
    assert not world.schedules.is_enabled
    pod = world.launch()
    world.reconcile()
    assert world.schedules.is_enabled
    world.stop(pod)
    world.reconcile()
    assert not world.schedules.is_enabled
