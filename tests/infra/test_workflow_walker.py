"""The walker finds what is wrong in small bad workflows, and nothing in good ones."""

from typing import Any

import pytest

from tests.infra import workflow_walker as walker
from tests.infra.workflow_walker import Scope

CATCH_ALL = ["States.ALL"]


def a_task(step: str, next_state: str | None = None, **more: Any) -> dict[str, Any]:
    onward = {"End": True} if next_state is None else {"Next": next_state}
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": "${StepsPodsArn}", "Payload": {"step": step}},
        "TimeoutSeconds": 30,
        "Retry": [{"ErrorEquals": ["States.TaskFailed"]}],
        **onward,
        **more,
    }


def a_waiting_task(**more: Any) -> dict[str, Any]:
    payload = {"step": "Wait", "task_token.$": "$$.Task.Token"}
    return (
        a_task(
            "Wait",
            Resource="arn:aws:states:::lambda:invoke.waitForTaskToken",
            Parameters={"FunctionName": "${StepsPodsArn}", "Payload": payload},
            HeartbeatSeconds=10,
        )
        | more
    )


def a_catch(target: str, *errors: str) -> list[dict[str, Any]]:
    return [{"ErrorEquals": list(errors) or CATCH_ALL, "Next": target}]


def a_workflow(start: str, **states: dict[str, Any]) -> Scope:
    return Scope({"StartAt": start, "States": states})


FAIL = {"Type": "Fail"}


def a_stop(**changes: dict[str, Any]) -> Scope:
    """Capture, verify, give up; any error resumes the machine and fails."""
    good = {
        "Capture": a_task("Capture", "Verify", Catch=a_catch("Resume")),
        "Verify": a_task("Verify", "GiveUp", Catch=a_catch("Resume")),
        "GiveUp": a_task("GiveUp"),
        "Resume": a_task("Resume", "Failed"),
        "Failed": FAIL,
    }
    return a_workflow("Capture", **(good | changes))


def a_parallel(*branches: Scope, **more: Any) -> dict[str, Any]:
    return {"Type": "Parallel", "Branches": [branch.graph for branch in branches], **more}


def unguarded(workflow: Scope) -> list[str] | None:
    return walker.unguarded_path(workflow, guard="Verify", target="GiveUp")


def test_a_good_workflow_has_no_findings() -> None:
    workflow = a_stop()
    assert walker.dangling_targets(workflow) == []
    assert walker.unreachable_states(workflow) == []
    assert walker.green_failures(workflow) == []
    assert walker.task_problems(workflow) == []
    assert unguarded(workflow) is None


def test_a_transition_to_a_missing_state_is_found() -> None:
    workflow = a_stop(Capture=a_task("Capture", "Verfy"))
    assert walker.dangling_targets(workflow) == ["Capture leads to Verfy, which does not exist"]


def test_a_missing_start_is_found() -> None:
    assert walker.dangling_targets(a_workflow("Nowhere", A=FAIL)) == [
        "StartAt names Nowhere, which does not exist"
    ]


def test_a_state_that_nothing_leads_to_is_found() -> None:
    workflow = a_stop(Orphan=FAIL)
    assert walker.unreachable_states(workflow) == ["Orphan is never entered"]


def test_an_unreachable_state_inside_a_branch_is_found() -> None:
    branch = a_workflow("A", A=a_task("A"), B=FAIL)
    assert walker.unreachable_states(a_workflow("P", P=a_parallel(branch, End=True))) == [
        "B is never entered"
    ]


def test_a_shortcut_around_the_guard_is_found() -> None:
    choice = {"Type": "Choice", "Choices": [{"Next": "GiveUp"}], "Default": "Verify"}
    workflow = a_stop(Capture=a_task("Capture", "Hurry"), Hurry=choice)
    assert unguarded(workflow) == ["Capture", "Hurry", "GiveUp"]


def test_a_guard_that_failed_does_not_guard() -> None:
    workflow = a_stop(Verify=a_task("Verify", "GiveUp", Catch=a_catch("GiveUp")))
    assert unguarded(workflow) == ["Capture", "Verify", "GiveUp"]


def test_a_renamed_state_is_still_found_by_its_step() -> None:
    workflow = a_stop(
        Capture=a_task("Capture", "TidyUp"), TidyUp=a_task("GiveUp"), Verify=a_task("Verify")
    )
    assert unguarded(workflow) == ["Capture", "TidyUp"]


def test_a_target_inside_a_branch_is_found() -> None:
    branch = a_workflow("Inner", Inner=a_task("GiveUp"))
    workflow = a_workflow("P", P=a_parallel(branch, End=True))
    assert unguarded(workflow) == ["P", "Inner"]


def test_a_guard_in_one_branch_of_a_parallel_guards_what_follows() -> None:
    parallel = a_parallel(
        a_workflow("V", V=a_task("Verify")), a_workflow("O", O=a_task("Other")), Next="GiveUp"
    )
    assert unguarded(a_workflow("P", P=parallel, GiveUp=a_task("GiveUp"))) is None


def test_a_guard_on_one_of_two_ways_through_a_branch_does_not_guard() -> None:
    branch = a_workflow(
        "Maybe",
        Maybe={"Type": "Choice", "Choices": [{"Next": "V"}], "Default": "Skip"},
        V=a_task("Verify"),
        Skip={"Type": "Pass", "End": True},
    )
    workflow = a_workflow("P", P=a_parallel(branch, Next="GiveUp"), GiveUp=a_task("GiveUp"))
    assert unguarded(workflow) == ["P", "GiveUp"]


def test_a_guard_inside_a_map_does_not_guard() -> None:
    processor = a_workflow("V", V=a_task("Verify")).graph
    each = {"Type": "Map", "ItemProcessor": processor, "Next": "GiveUp"}
    assert unguarded(a_workflow("Each", Each=each, GiveUp=a_task("GiveUp"))) == ["Each", "GiveUp"]


def test_a_loop_is_walked_once() -> None:
    wait = {"Type": "Wait", "Seconds": 5, "Next": "Capture"}
    choice = {"Type": "Choice", "Choices": [{"Next": "Pause"}], "Default": "Verify"}
    workflow = a_stop(Capture=a_task("Capture", "Again"), Again=choice, Pause=wait)
    assert unguarded(workflow) is None
    assert "Pause" in walker.reached(workflow, with_errors=False)


def test_an_error_path_that_ends_well_is_found() -> None:
    workflow = a_stop(Resume=a_task("Resume"))
    assert walker.green_failures(workflow) == ["Resume is on the error side and ends well"]


def test_a_catch_all_that_goes_on_is_found() -> None:
    workflow = a_stop(Capture=a_task("Capture", "Verify", Catch=a_catch("Verify")))
    assert walker.green_failures(workflow) == [
        "Capture catches everything and goes on at Verify as if nothing were wrong"
    ]


def test_a_named_error_may_be_recovered_from() -> None:
    catches = [*a_catch("Capture", "NoCapacityError"), *a_catch("Resume")]
    assert walker.green_failures(a_stop(Verify=a_task("Verify", "GiveUp", Catch=catches))) == []


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (a_task("A") | {"TimeoutSeconds": None}, "A has no TimeoutSeconds"),
        (a_task("A", Retry=[]), "A has no Retry"),
        (
            a_waiting_task(HeartbeatSeconds=None),
            "A waits for a token and has no HeartbeatSeconds",
        ),
        (
            a_waiting_task(HeartbeatSeconds=30),
            "A has a HeartbeatSeconds that is not below its TimeoutSeconds",
        ),
        (
            a_waiting_task(Parameters={"Payload": {"step": "A"}}),
            "A waits for a token that it does not pass on",
        ),
    ],
)
def test_a_task_that_could_hang_or_give_up_is_found(task: dict[str, Any], problem: str) -> None:
    assert walker.task_problems(a_workflow("A", A=task)) == [problem]


def test_errors_and_steps_are_read_from_retry_catch_and_payload() -> None:
    task = a_task("A", Catch=a_catch("F", "BootFailedError"))
    (state, _) = walker.states(a_workflow("A", A=task, F=FAIL))
    assert state.error_names == ["States.TaskFailed", "BootFailedError"]
    assert state.step == "A"
