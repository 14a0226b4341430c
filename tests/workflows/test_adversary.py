"""Everything at the wrong moment: cancels, deaths, repeats and refusals at every step."""

import contextlib

import pytest
from asl import KilledError
from scenes import LAUNCH, POINTS, SIDES, STEPS_OF, STOP, ask, check_kept, once_at, prepared

from podferry.domain.errors import ConflictError, WrongStateError
from podferry.domain.operation import OperationState
from podferry.domain.pod import PodState


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("kind", "step"), POINTS)
def test_promise_10_a_cancel_at_any_step_is_refused_or_wins(world, kind, step, side):
    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    refused: list[WrongStateError] = []

    def cancel(_: str) -> None:
        try:
            world.app.cancel_operation.ask(world.account.id, operation.id)
        except WrongStateError as error:
            refused.append(error)

    assert once_at(world, side, step, cancel) == []
    world.settle()
    ended = world.operation(operation).state
    assert ended == (OperationState.SUCCEEDED if refused else OperationState.CANCELLED)
    check_kept(world, pod)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("step", [*STOP, *LAUNCH])
def test_promise_10_a_cancel_of_one_half_of_a_move_leaves_the_pod_whole(world, step, side):
    pod = prepared(world, "move")
    ask(world, pod, "move")

    def cancel(half: str) -> None:
        with contextlib.suppress(WrongStateError):
            world.app.cancel_operation.ask(world.account.id, half)

    happened = once_at(world, side, step, cancel)
    world.settle()
    assert happened
    check_kept(world, pod)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("kind", "step"), POINTS)
def test_promise_10_executions_that_die_around_any_step_are_finished(world, kind, step, side):
    def die(_: str) -> None:
        raise KilledError

    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    happened = once_at(world, side, step, die)
    world.run()
    assert happened
    world.reconcile()
    world.reconcile()
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    check_kept(world, pod)


@pytest.mark.parametrize(("kind", "step"), POINTS)
def test_promise_10_a_cancel_of_an_operation_whose_execution_died_still_wins(world, kind, step):
    def die(_: str) -> None:
        raise KilledError

    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    once_at(world, "after_step", step, die)
    world.run()
    with contextlib.suppress(WrongStateError):
        world.app.cancel_operation.ask(world.account.id, operation.id)
    is_cancelled = world.operation(operation).is_cancel_asked
    world.settle()
    ended = world.operation(operation).state
    assert ended == (OperationState.CANCELLED if is_cancelled else OperationState.SUCCEEDED)
    check_kept(world, pod)


@pytest.mark.parametrize("kind", list(STEPS_OF))
def test_promise_10_every_step_run_twice_in_a_row_has_one_effect(world, kind):
    pod = prepared(world, kind)
    world.repeats = True
    operation = ask(world, pod, kind)
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert world.alpha.creates + world.beta.creates == (1 if kind == "stop" else 2)
    check_kept(world, pod)


BACKWARDS = {
    "start": ("ReturnMachine", "AwaitReturned", "FailStart"),
    "stop": ("AssessStop", "ResumeMachine", "FailStop"),
}


@pytest.mark.parametrize("kind", ["start", "stop"])
@pytest.mark.parametrize("back", [False, True])
def test_promise_10_steps_that_run_again_long_after_the_end_change_nothing(world, kind, back):
    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    if back:
        once_at(
            world,
            "after_step",
            STEPS_OF[kind][4],
            lambda _: world.app.cancel_operation.ask(world.account.id, operation.id),
        )
    world.settle()
    before = world.pod(pod), world.volume(pod), world.operation(operation)
    for step in (*STEPS_OF[kind], *BACKWARDS[kind]):
        world.step_again(step, operation.id)
        after = world.pod(pod), world.volume(pod), world.operation(operation)
        assert (after[0], after[1], after[2].state) == (before[0], before[1], before[2].state), step
    world.run(seconds=30)
    check_kept(world, pod)


@pytest.mark.parametrize("kind", ["start", "stop"])
@pytest.mark.parametrize("number", range(len(LAUNCH)))
def test_promise_10_a_step_that_runs_again_before_every_later_step_harms_nothing(
    world, kind, number
):
    pod = prepared(world, kind)
    late = STEPS_OF[kind][number]
    has_run: set[str] = set()

    operation = ask(world, pod, kind)

    def again(step: str, operation_id: str) -> None:
        if late in has_run and operation_id == operation.id:
            world.step_again(late, operation_id)
        has_run.add(step)

    world.before_step = again
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    check_kept(world, pod)


@pytest.mark.parametrize("kind", list(STEPS_OF))
@pytest.mark.parametrize("conflicts", [1, 3, 7])
def test_promise_10_a_storm_of_conflicts_ends_like_calm_weather(world, kind, conflicts):
    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    world.store.conflicts = conflicts
    world.settle()
    world.store.conflicts = 0
    world.settle()
    assert world.operation(operation).state in {OperationState.SUCCEEDED, OperationState.FAILED}
    check_kept(world, pod)


@pytest.mark.parametrize("kind", list(STEPS_OF))
def test_promise_10_a_process_that_dies_between_commit_and_start_is_made_up_for(world, kind):
    pod = prepared(world, kind)
    world.reconcile()
    start = world.workflows.start
    world.workflows.start = lambda *_: None  # type: ignore[method-assign]
    operation = ask(world, pod, kind)
    world.workflows.start = start  # type: ignore[method-assign]
    assert world.schedules.is_enabled
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    check_kept(world, pod)


def test_promise_10_a_start_right_after_a_failed_stop_is_refused_and_a_stop_is_not(world):
    pod = prepared(world, "stop")
    world.after_capture = lambda kind, snapshot, pack: world.objects.remove(
        kind, f"{world.account.id}/{snapshot}/{pack}"
    )
    assert world.stop(pod).state == OperationState.FAILED
    with pytest.raises(WrongStateError):
        world.start(pod)
    world.after_capture = lambda *_: None
    assert world.stop(pod).state == OperationState.SUCCEEDED
    check_kept(world, pod)


@pytest.mark.parametrize("kind", ["start", "stop", "move"])
def test_promise_10_while_one_operation_is_at_work_every_other_is_refused(world, kind):
    pod = prepared(world, kind)
    operation = ask(world, pod, kind)
    asked = []

    def others(_: str, __: str) -> None:
        for other in STEPS_OF:
            with pytest.raises((WrongStateError, ConflictError)):
                ask(world, pod, other)
        with pytest.raises(WrongStateError):
            world.app.delete_pod.delete(world.account.id, pod.id)
        asked.append(1)

    world.before_step = others
    world.run()
    assert asked
    world.before_step = lambda *_: None
    assert world.operation(operation).state == OperationState.SUCCEEDED
    check_kept(world, pod)
    assert world.pod(pod).state == PodState.RUNNING
