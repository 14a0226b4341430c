"""The workflow files keep the promises that a file can keep."""

import pytest

from infra.catalog import FUNCTIONS, STEP_FUNCTIONS, WORKFLOWS
from infra.sources import Sources
from podferry.domain import errors
from podferry.steps import STEPS
from tests.infra import workflow_walker as walker
from tests.infra.workflow_walker import Scope, State

NAMES = tuple(spec.name for spec in WORKFLOWS)
FUNCTION_OF = {
    f"${{{spec.title}Arn}}": spec.name for spec in FUNCTIONS if spec.name in STEP_FUNCTIONS
}
TIMEOUT_OF = {spec.name: spec.timeout_seconds for spec in FUNCTIONS}
# Names that AWS itself raises beside `States.*` and `Lambda.*`.
AWS_NAMES = {"Sandbox.Timedout"}


@pytest.fixture(params=NAMES)
def workflow(request: pytest.FixtureRequest) -> Scope:
    return walker.load(Sources().workflow(request.param))


def function_of(task: State) -> str:
    return FUNCTION_OF[task.arguments["FunctionName"]]


def test_every_workflow_file_is_deployed() -> None:
    assert {path.name for path in Sources().workflows.iterdir()} == {
        f"{name}.asl.json" for name in NAMES
    }


def test_transitions_lead_to_states_that_exist(workflow: Scope) -> None:
    assert walker.dangling_targets(workflow) == []


def test_every_state_can_be_entered(workflow: Scope) -> None:
    assert walker.unreachable_states(workflow) == []


def test_a_workflow_and_each_of_its_tasks_end_in_time(workflow: Scope) -> None:
    assert workflow.graph["TimeoutSeconds"] > 0
    assert walker.task_problems(workflow) == []


def test_every_failing_path_ends_in_fail(workflow: Scope) -> None:
    assert walker.green_failures(workflow) == []


def test_every_error_outside_of_a_branch_is_caught(workflow: Scope) -> None:
    """An error that nobody catches ends the execution without a word on the pod."""
    uncaught = [state.name for state in workflow.states.values() if not _is_safe(state)]
    assert uncaught == []


def test_promise_01_no_path_to_giving_a_machine_up_avoids_verification(workflow: Scope) -> None:
    path = walker.unguarded_path(workflow, guard="VerifyCaptures", target="GiveUpMachine")
    assert path is None


def test_promise_01_the_stop_workflow_does_give_the_machine_up() -> None:
    """Keeps the test above from passing because a step was renamed."""
    stop = walker.load(Sources().workflow("stop"))
    assert {"VerifyCaptures", "GiveUpMachine"} <= {task.step for task in walker.tasks(stop)}


def test_promise_06_a_pod_runs_only_after_both_restores_and_the_probe() -> None:
    launch = walker.load(Sources().workflow("launch"))
    assert "FinishStart" in {task.step for task in walker.tasks(launch)}
    for guard in ("RestoreEnvironment", "RestoreVolume", "AwaitReady"):
        assert walker.unguarded_path(launch, guard=guard, target="FinishStart") is None


def test_a_task_is_named_after_its_step_and_its_function_has_it(workflow: Scope) -> None:
    for task in walker.tasks(workflow):
        assert task.step == task.name
        assert task.step in STEPS[function_of(task)]


def test_every_step_is_used_by_some_workflow() -> None:
    used = {
        (function_of(task), task.step)
        for name in NAMES
        for task in walker.tasks(walker.load(Sources().workflow(name)))
    }
    assert used == {(function, step) for function, steps in STEPS.items() for step in steps}


def test_a_task_waits_longer_than_its_function_may_run(workflow: Scope) -> None:
    """Otherwise a retry would start while the first attempt is still at work."""
    for task in walker.tasks(workflow):
        assert task.body["TimeoutSeconds"] > TIMEOUT_OF[function_of(task)], task.name


def test_a_task_tells_its_operation(workflow: Scope) -> None:
    for task in walker.tasks(workflow):
        assert task.arguments["Payload"]["operation_id.$"] == "$.operation_id", task.name


def test_every_error_name_is_a_class_of_ours_or_of_aws(workflow: Scope) -> None:
    for state in walker.states(workflow):
        assert [name for name in state.error_names if not _is_known(name)] == [], state.name


def _is_safe(state: State) -> bool:
    if state.kind not in {"Task", "Parallel", "Map"}:
        return True
    catches = state.body.get("Catch", ())
    return any("States.ALL" in catch["ErrorEquals"] for catch in catches)


def _is_known(name: str) -> bool:
    if name.startswith(("States.", "Lambda.")) or name in AWS_NAMES:
        return True
    found = getattr(errors, name, None)
    return isinstance(found, type) and issubclass(found, errors.PodferryError)
