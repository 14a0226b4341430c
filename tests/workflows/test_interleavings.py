"""Somebody else writes between a process's reads and its write, at every write there is."""

import pytest
from asl import KilledError
from scenes import STEPS_OF, ask, check_kept, prepared
from world import World

from podferry.domain.errors import WrongStateError
from podferry.domain.operation import OperationState


def writes_of(kind: str) -> list[str]:
    """Which step (or the agents' API) makes each write of an undisturbed operation, in order."""
    world = World()
    pod = prepared(world, kind)
    ask(world, pod, kind)
    writers: list[str] = []
    running = ["agent"]

    def begins(step: str, _: str) -> None:
        running[0] = step

    def ends(_: str, __: str) -> None:
        running[0] = "agent"

    world.before_step, world.after_step = begins, ends
    world.store.before_commit = lambda: writers.append(running[0])
    world.run()
    return writers


WRITES = {kind: writes_of(kind) for kind in STEPS_OF}
EVERY_WRITE = [(kind, number) for kind, writers in WRITES.items() for number in range(len(writers))]
WRITES_OF_STEPS = [
    (kind, number) for kind, number in EVERY_WRITE if WRITES[kind][number] != "agent"
]


def name_of(value: object) -> str:
    return str(value)


def at_write(world, number, do):
    """Do it when the write of this number is about to happen."""
    seen = [0]

    def hook() -> None:
        seen[0] += 1
        if seen[0] == number + 1:
            world.store.before_commit = lambda: None
            do()

    world.store.before_commit = hook


@pytest.mark.parametrize(("kind", "number"), EVERY_WRITE, ids=name_of)
def test_promise_10_a_cancel_in_the_middle_of_any_write_is_refused_or_wins(world, kind, number):
    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    answers: list[str] = []

    def cancel() -> None:
        try:
            world.app.cancel_operation.ask(world.account.id, operation.id)
            answers.append("taken")
        except WrongStateError:
            answers.append("refused")

    at_write(world, number, cancel)
    world.settle()
    ended = world.operation(operation).state
    expected = {"taken": OperationState.CANCELLED, "refused": OperationState.SUCCEEDED}
    assert [ended] == [expected[answer] for answer in answers]
    check_kept(world, pod)


@pytest.mark.parametrize(("kind", "number"), WRITES_OF_STEPS, ids=name_of)
def test_promise_10_a_step_that_runs_twice_at_once_has_one_effect(world, kind, number):
    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    running: list[tuple[str, str]] = []
    world.before_step = lambda step, operation_id: running.append((step, operation_id))
    at_write(world, number, lambda: world.step_again(*running[-1]))
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert world.alpha.creates + world.beta.creates == (1 if kind == "stop" else 2)
    check_kept(world, pod)


@pytest.mark.parametrize(("kind", "number"), WRITES_OF_STEPS, ids=name_of)
def test_promise_10_a_write_of_a_dead_execution_that_comes_late_harms_nothing(world, kind, number):
    """The execution dies, its function lives on for a moment, and its successor is done first."""
    pod = prepared(world, kind)
    operation = ask(world, pod, kind)

    def die(*_: str) -> None:
        world.after_step = lambda *_: None
        raise KilledError

    def successor() -> None:
        world.engine.kill_all()
        world.settle()
        world.after_step = die

    at_write(world, number, successor)
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    check_kept(world, pod)
