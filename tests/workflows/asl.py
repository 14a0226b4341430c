"""Runs the real workflow files in one process, in virtual time.

Understands what the files use: Task (also `.waitForTaskToken`), Choice, Wait, Pass, Parallel,
Succeed, Fail, Retry, Catch, TimeoutSeconds, HeartbeatSeconds. Anything else is an error, so that a
file cannot pass its tests by using something that this interpreter skips.
"""

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

WORKFLOWS = Path(__file__).resolve().parents[2] / "infra" / "workflows"

MOST_STATES = 5_000
"""An execution may have 25,000 events, and a state makes up to five."""

Json = dict[str, Any]
Invoke = Callable[[str, Json], Json]


class StateError(Exception):
    """An error with the name that a workflow sees."""

    def __init__(self, name: str, cause: str = "") -> None:
        super().__init__(f"{name}: {cause}")
        self.name = name
        self.cause = cause


class KilledError(Exception):
    """All executions die at this line."""


@dataclass
class Waiting:
    """What a run waits for: a moment, or the answer to a token."""

    until: float
    token: str | None = None
    heartbeat: float | None = None
    beat_at: float = 0.0
    answer: Json | None = None
    error: StateError | None = None

    @property
    def deadline(self) -> float:
        if self.token is None or self.heartbeat is None:
            return self.until
        return min(self.until, self.beat_at + self.heartbeat)


Run = Generator[list[Waiting], None, Json]


@dataclass
class Execution:
    """One execution: which states it visited and how it ended."""

    name: str
    workflow: str
    run: Run
    visited: list[str] = field(default_factory=list)
    at: str = ""
    """The state that it is in, or enters next."""
    waits: list[Waiting] = field(default_factory=list)
    status: str = "RUNNING"
    error: str | None = None


class Engine:
    """All executions of one world."""

    def __init__(self, now: Callable[[], float], invoke: Invoke) -> None:
        self.now = now
        self.invoke = invoke
        self.files = {p.name.split(".")[0]: json.loads(p.read_text()) for p in files()}
        self.pauses_between_states = False
        """Each turn of an execution is one state; else it goes on until it has to wait."""
        self.executions: dict[str, Execution] = {}
        self._serials = count(1)
        self._tokens: dict[str, Waiting] = {}

    def start(self, workflow: str, name: str, state: Json) -> None:
        if name in self.executions:
            return
        execution = Execution(name=name, workflow=workflow, run=iter(()))  # type: ignore[arg-type]
        execution.run = self._machine(execution, self.files[workflow], state)
        self.executions[name] = execution

    def kill_all(self) -> None:
        """What a restart of the embedded AWS does to executions."""
        for execution in self.executions.values():
            if execution.status == "RUNNING":
                execution.status, execution.waits = "FAILED", []
                execution.error = "States.ServiceRestart"
        self._tokens.clear()

    def waiting(self, token: str) -> Waiting | None:
        """The open wait behind a token; none if it was answered, timed out or died."""
        wait = self._tokens.get(token)
        if wait is None or wait.answer is not None or wait.error is not None:
            return None
        return wait

    def step(self) -> bool:
        """Advance every execution that can; false if all wait."""
        moved = False
        for execution in list(self.executions.values()):
            if self._is_ready(execution):
                self.advance(execution)
                moved = True
        return moved

    def ready(self) -> list[Execution]:
        """Executions that do not have to wait."""
        return [one for one in self.executions.values() if self._is_ready(one)]

    def _is_ready(self, execution: Execution) -> bool:
        if execution.status != "RUNNING":
            return False
        if not execution.waits:
            return True
        return any(
            wait.answer is not None or wait.error is not None or wait.deadline <= self.now()
            for wait in execution.waits
        )

    def advance(self, execution: Execution) -> None:
        """One turn of an execution that is ready."""
        try:
            execution.waits = next(execution.run)
        except StopIteration:
            execution.status, execution.waits = "SUCCEEDED", []
        except StateError as error:
            execution.status, execution.waits = "FAILED", []
            execution.error = error.name
        except KilledError:
            self.kill_all()

    # The machine

    def _machine(self, execution: Execution, machine: Json, state: Json) -> Run:
        name: str | None = machine["StartAt"]
        while name is not None:
            definition = machine["States"][name]
            execution.at = name
            if self.pauses_between_states:
                yield [Waiting(until=self.now())]
            execution.visited.append(name)
            assert len(execution.visited) < MOST_STATES, "more events than an execution may have"
            try:
                state, name = yield from self._state(execution, name, definition, state)
            except StateError as error:
                state, name = self._catch(definition, state, error)
        return state

    def _state(
        self, execution: Execution, name: str, definition: Json, state: Json
    ) -> Generator[list[Waiting], None, tuple[Json, str | None]]:
        kind = definition["Type"]
        if kind == "Succeed":
            return state, None
        if kind == "Fail":
            raise StateError(definition["Error"], definition["Cause"])
        if kind == "Choice":
            return state, _choose(definition, state)
        if kind == "Pass":
            result = definition.get("Result", state)
            return _place(state, definition.get("ResultPath", "$"), result), definition["Next"]
        if kind == "Wait":
            path = definition.get("SecondsPath")
            seconds = definition["Seconds"] if path is None else _look_up(state, path)
            yield from self._sleep(seconds)
            return state, definition["Next"]
        assert kind in {"Task", "Parallel"}, f"{name}: no {kind} here"
        result = yield from self._with_retries(execution, definition, state)
        after = _place(state, definition.get("ResultPath", "$"), result)
        return after, None if definition.get("End") else definition["Next"]

    def _with_retries(self, execution: Execution, definition: Json, state: Json) -> Run:
        tries: dict[int, int] = {}
        while True:
            try:
                if definition["Type"] == "Parallel":
                    return (yield from self._parallel(execution, definition, state))
                return (yield from self._task(definition, state))
            except StateError as error:
                index = _matching(definition.get("Retry", []), error.name)
                if index is None:
                    raise
                retrier = definition["Retry"][index]
                done = tries.get(index, 0)
                if done >= retrier.get("MaxAttempts", 3):
                    raise
                tries[index] = done + 1
                seconds = retrier.get("IntervalSeconds", 1) * retrier.get("BackoffRate", 2) ** done
                yield from self._sleep(seconds)

    def _catch(self, definition: Json, state: Json, error: StateError) -> tuple[Json, str]:
        index = _matching(definition.get("Catch", []), error.name)
        if index is None:
            raise error
        catcher = definition["Catch"][index]
        info = {"Error": error.name, "Cause": error.cause}
        return _place(state, catcher.get("ResultPath", "$"), info), catcher["Next"]

    def _task(self, definition: Json, state: Json) -> Run:
        is_callback = definition["Resource"].endswith(".waitForTaskToken")
        assert definition["Resource"].startswith("arn:aws:states:::lambda:invoke")
        token = f"token-{next(self._serials)}"
        parameters = _fill(definition["Parameters"], state, token)
        function = parameters["FunctionName"].strip("${}")
        wait = Waiting(
            until=self.now() + definition["TimeoutSeconds"],
            token=token,
            heartbeat=definition.get("HeartbeatSeconds"),
            beat_at=self.now(),
        )
        if not is_callback:
            return {"Payload": self.invoke(function, parameters["Payload"])}
        # The answer may come while the function still runs.
        self._tokens[token] = wait
        self.invoke(function, parameters["Payload"])
        while wait.answer is None and wait.error is None:
            yield [wait]
            if wait.answer is None and wait.error is None and wait.deadline <= self.now():
                del self._tokens[token]
                is_silent = wait.deadline < wait.until
                raise StateError("States.HeartbeatTimeout" if is_silent else "States.Timeout")
        if wait.error is not None:
            raise wait.error
        return wait.answer or {}

    def _parallel(self, execution: Execution, definition: Json, state: Json) -> Run:
        branches = [self._machine(execution, b, state) for b in definition["Branches"]]
        results: dict[int, Json] = {}
        waits: dict[int, list[Waiting]] = {}
        while len(results) < len(branches):
            for index, branch in enumerate(branches):
                if index in results or not self._is_due(waits.get(index)):
                    continue
                try:
                    waits[index] = next(branch)
                except StopIteration as done:
                    results[index] = done.value
                    waits.pop(index, None)
            if len(results) < len(branches):
                yield [wait for branch_waits in waits.values() for wait in branch_waits]
        return {"branches": [results[i] for i in range(len(branches))]}

    def _is_due(self, waits: list[Waiting] | None) -> bool:
        return waits is None or any(
            w.answer is not None or w.error is not None or w.deadline <= self.now() for w in waits
        )

    def _sleep(self, seconds: float) -> Generator[list[Waiting], None, None]:
        until = self.now() + seconds
        while self.now() < until:
            yield [Waiting(until=until)]


def files() -> list[Path]:
    return sorted(WORKFLOWS.glob("*.asl.json"))


def _matching(rules: list[Json], name: str) -> int | None:
    for index, rule in enumerate(rules):
        names = rule["ErrorEquals"]
        if name in names or "States.ALL" in names:
            return index
    return None


def _choose(definition: Json, state: Json) -> str:
    for rule in definition["Choices"]:
        value = _look_up(state, rule["Variable"])
        operator = next(key for key in rule if key not in {"Variable", "Next"})
        assert operator in {"BooleanEquals", "StringEquals"}, operator
        if value == rule[operator]:
            return str(rule["Next"])
    return str(definition["Default"])


def _look_up(state: Json, path: str) -> Any:
    value: Any = state
    for part in path.removeprefix("$").strip(".").split("."):
        if part:
            value = value[part]
    return value


def _place(state: Json, path: str | None, value: Any) -> Json:
    if path is None:
        return state
    if path == "$":
        return value
    copy = json.loads(json.dumps(state))
    target = copy
    *parents, last = path.removeprefix("$.").split(".")
    for part in parents:
        target = target.setdefault(part, {})
    target[last] = json.loads(json.dumps(value))
    return copy


def _fill(template: Any, state: Json, token: str) -> Any:
    if not isinstance(template, dict):
        return template
    filled = {}
    for key, value in template.items():
        if not key.endswith(".$"):
            filled[key] = _fill(value, state, token)
        elif value == "$$.Task.Token":
            filled[key[:-2]] = token
        else:
            filled[key[:-2]] = _look_up(state, value)
    return filled
