"""Tasks that wait for a token behave as on AWS.

MiniStack ignores `HeartbeatSeconds`, `HeartbeatSecondsPath` and `TimeoutSecondsPath`, waits for
ever when the function that should pass the token on fails, gives every retry the same token (so a
late answer to the first attempt ends the second), and keeps waiting after its execution or branch
ended.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

import contextvars
import threading
import time
from dataclasses import dataclass
from typing import Any

from ministack.services import stepfunctions

from local.aws.shims import guard
from local.aws.shims.parallel import BranchStoppedError, must_stop

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the task that runs in this thread belongs to."""

    execution: dict[str, Any]
    context: dict[str, Any]

    def has_ended(self) -> bool:
        return self.execution["status"] != "RUNNING" or must_stop()


_attempt: contextvars.ContextVar[Attempt | None] = contextvars.ContextVar("attempt", default=None)
# The state machine that waits for each token.
_machines: dict[str, str] = {}
_token: contextvars.ContextVar[str | None] = contextvars.ContextVar("token", default=None)


def apply() -> None:
    """Wraps tasks, their waits, and the calls that hand out tokens."""
    guard.take(stepfunctions, "_task_tokens")
    guard.take(stepfunctions, "_resolve_path")
    _wrap_task()
    _wrap_wait()
    _wrap_call()
    _wrap_heartbeat()


def machine_of(token: str) -> str | None:
    """The ARN of the state machine that waits for the token."""
    return _machines.get(token)


def _wrap_task() -> None:
    original = guard.take(stepfunctions, "_execute_task")

    def execute(state: dict[str, Any], raw_input: Any, execution: Any, context: Any) -> Any:
        if execution is None:
            return original(state, raw_input, execution, context)
        attempt = Attempt(execution, context)
        if attempt.has_ended():
            raise BranchStoppedError
        mark = _attempt.set(attempt)
        try:
            return original(_with_limits(state, raw_input), raw_input, execution, context)
        finally:
            _attempt.reset(mark)

    guard.replace(stepfunctions, "_execute_task", execute)


def _with_limits(state: dict[str, Any], raw_input: Any) -> dict[str, Any]:
    limits = {
        name: stepfunctions._resolve_path(state[f"{name}Path"], raw_input)
        for name in ("TimeoutSeconds", "HeartbeatSeconds")
        if f"{name}Path" in state
    }
    return state | limits


def _wrap_wait() -> None:
    original = guard.take(stepfunctions, "_invoke_with_callback")

    def invoke(resource: str, data: Any, token: str, state: dict[str, Any]) -> Any:
        attempt = _attempt.get()
        mark = _token.set(token)
        if attempt is not None:
            _machines[token] = attempt.execution["stateMachineArn"]
        watch = Watch(token, state.get("HeartbeatSeconds"), attempt)
        watch.start()
        try:
            return original(resource, data, token, state)
        except stepfunctions._ExecutionError:
            if watch.stopped:
                raise BranchStoppedError from None
            if attempt is not None:
                attempt.context["Task"] = {"Token": stepfunctions.new_uuid()}
            raise
        finally:
            watch.done.set()
            _machines.pop(token, None)
            _token.reset(mark)

    guard.replace(stepfunctions, "_invoke_with_callback", invoke)


class Watch:
    """Ends one wait when its heartbeats stop or when nobody needs its answer any more."""

    def __init__(self, token: str, heartbeat: float | None, attempt: Attempt | None) -> None:
        self.done = threading.Event()
        self.stopped = False
        self._token = token
        self._heartbeat = heartbeat
        self._attempt = attempt
        self._started = time.monotonic()

    def start(self) -> None:
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._run,), daemon=True).start()

    def _run(self) -> None:
        while not self.done.wait(POLL_SECONDS):
            if self._attempt is not None and self._attempt.has_ended():
                self.stopped = True
                _end(self._token, "States.TaskFailed", "the execution or branch has ended")
                return
            if self._heartbeat is not None and self._silence() > self._heartbeat:
                _end(self._token, "States.HeartbeatTimeout", "")
                return

    def _silence(self) -> float:
        entry = stepfunctions._task_tokens.get(self._token) or {}
        last_beat = float(entry.get("beat_at", 0.0))
        return time.monotonic() - max(self._started, last_beat)


def _end(token: str, error: str, cause: str) -> None:
    entry = stepfunctions._task_tokens.get(token)
    if entry is not None and not entry["event"].is_set():
        entry["error"] = {"Error": error, "Cause": cause}
        entry["event"].set()


def _wrap_call() -> None:
    original = guard.take(stepfunctions, "_call_lambda")

    def call(function: Any, event: Any) -> Any:
        try:
            return original(function, event)
        except stepfunctions._ExecutionError as failed:
            token = _token.get()
            if token is not None:
                _end(token, failed.error, failed.cause)
            raise

    guard.replace(stepfunctions, "_call_lambda", call)


def _wrap_heartbeat() -> None:
    original = guard.take(stepfunctions, "_send_task_heartbeat")

    def beat(request: dict[str, Any]) -> Any:
        entry = stepfunctions._task_tokens.get(request.get("taskToken"))
        if entry is not None:
            entry["beat_at"] = time.monotonic()
        return original(request)

    guard.replace(stepfunctions, "_send_task_heartbeat", beat)
