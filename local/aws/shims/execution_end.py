"""Executions end when they should, and stay ended.

MiniStack ignores the `TimeoutSeconds` of a state machine, and a task that fails after its execution
was stopped turns `ABORTED` into `FAILED`.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

import contextvars
import json
import threading
from typing import Any

from ministack.services import stepfunctions

from local.aws.shims import guard


def apply() -> None:
    """Adds the timer and makes final states final."""
    run = guard.take(stepfunctions, "_run_execution")
    fail = guard.take(stepfunctions, "_fail_execution")
    for name in ("_executions", "_state_machines", "_add_event", "_emit_execution_status_event"):
        guard.take(stepfunctions, name)

    def run_with_timeout(arn: str) -> Any:
        timer = _timer(arn)
        if timer is None:
            return run(arn)
        timer.start()
        try:
            return run(arn)
        finally:
            timer.cancel()

    def fail_once(execution: dict[str, Any], error: str, cause: str) -> None:
        if execution["status"] == "RUNNING":
            fail(execution, error, cause)

    guard.replace(stepfunctions, "_run_execution", run_with_timeout)
    guard.replace(stepfunctions, "_fail_execution", fail_once)


def _timer(arn: str) -> threading.Timer | None:
    execution = stepfunctions._executions.get(arn)
    machine = execution and stepfunctions._state_machines.get(execution["stateMachineArn"])
    if not machine:
        return None
    seconds = json.loads(machine["definition"]).get("TimeoutSeconds")
    if seconds is None:
        return None
    # The timer's thread needs the account and region of this one.
    context = contextvars.copy_context()
    timer = threading.Timer(float(seconds), lambda: context.run(_expire, execution))
    timer.daemon = True
    return timer


def _expire(execution: dict[str, Any]) -> None:
    if execution["status"] != "RUNNING":
        return
    execution.update(
        status="TIMED_OUT", stopDate=stepfunctions.now_iso(), error="States.Timeout", cause=None
    )
    stepfunctions._add_event(
        execution,
        "ExecutionTimedOut",
        {"executionTimedOutEventDetails": {"error": "States.Timeout"}},
    )
    stepfunctions._emit_execution_status_event(execution)
