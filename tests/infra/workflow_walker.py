"""Reads a workflow file (Amazon States Language) as a graph and looks for what must not be there.

Each rule answers with sentences that name the state, so that a failing test says what to mend.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WAITS_FOR_TOKEN = ".waitForTaskToken"
TOKEN = "$$.Task.Token"


@dataclass(frozen=True, slots=True)
class State:
    """One state and where it may lead."""

    name: str
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.body["Type"])

    @property
    def is_task(self) -> bool:
        return self.kind == "Task"

    @property
    def waits_for_token(self) -> bool:
        return str(self.body.get("Resource", "")).endswith(WAITS_FOR_TOKEN)

    @property
    def ends_well(self) -> bool:
        return self.kind == "Succeed" or self.body.get("End") is True

    @property
    def on_success(self) -> tuple[str, ...]:
        """Where it leads if nothing goes wrong."""
        choices = [choice["Next"] for choice in self.body.get("Choices", ())]
        others = [self.body[key] for key in ("Next", "Default") if key in self.body]
        return (*choices, *others)

    @property
    def on_error(self) -> tuple[str, ...]:
        return tuple(catch["Next"] for catch in self.body.get("Catch", ()))

    @property
    def scopes(self) -> tuple["Scope", ...]:
        """The graphs inside a Parallel or Map state."""
        inner = [self.body[key] for key in ("ItemProcessor", "Iterator") if key in self.body]
        return tuple(Scope(graph) for graph in (*self.body.get("Branches", ()), *inner))

    @property
    def error_names(self) -> list[str]:
        rules = (*self.body.get("Retry", ()), *self.body.get("Catch", ()))
        return [name for rule in rules for name in rule["ErrorEquals"]]

    @property
    def arguments(self) -> dict[str, Any]:
        """What a task hands to Lambda: `FunctionName` and `Payload`."""
        return dict(self.body.get("Arguments") or self.body.get("Parameters") or {})

    @property
    def step(self) -> str | None:
        step = self.arguments.get("Payload", {}).get("step")
        return None if step is None else str(step)


@dataclass(frozen=True, slots=True)
class Scope:
    """A graph with one entry: the whole file, or what a Parallel or Map state runs."""

    graph: dict[str, Any]

    @property
    def start(self) -> str:
        return str(self.graph["StartAt"])

    @property
    def states(self) -> dict[str, State]:
        return {name: State(name, body) for name, body in self.graph["States"].items()}


def load(path: Path) -> Scope:
    return Scope(json.loads(path.read_text()))


def scopes(scope: Scope) -> Iterator[Scope]:
    """This graph and all graphs inside it."""
    yield scope
    for state in scope.states.values():
        for inner in state.scopes:
            yield from scopes(inner)


def states(scope: Scope) -> list[State]:
    return [state for graph in scopes(scope) for state in graph.states.values()]


def tasks(scope: Scope) -> list[State]:
    return [state for state in states(scope) if state.is_task]


def dangling_targets(scope: Scope) -> list[str]:
    """Transitions to states that do not exist; the other rules rely on there being none."""
    return [
        f"{state.name} leads to {target}, which does not exist"
        for graph in scopes(scope)
        for state in graph.states.values()
        for target in (*state.on_success, *state.on_error)
        if target not in graph.states
    ] + [
        f"StartAt names {graph.start}, which does not exist"
        for graph in scopes(scope)
        if graph.start not in graph.states
    ]


def reached(scope: Scope, *, with_errors: bool) -> set[str]:
    """The states of this graph that an execution can enter."""
    seen: set[str] = set()
    ahead = [scope.start]
    while ahead:
        state = scope.states[ahead.pop()]
        if state.name not in seen:
            seen.add(state.name)
            ahead += (*state.on_success, *(state.on_error if with_errors else ()))
    return seen


def unreachable_states(scope: Scope) -> list[str]:
    return [
        f"{name} is never entered"
        for graph in scopes(scope)
        for name in graph.states.keys() - reached(graph, with_errors=True)
    ]


def green_failures(scope: Scope) -> list[str]:
    """Error paths that end as if all were well.

    States that only an error leads to make up the error side. It may return to the normal side
    (that is recovery), but it may end in nothing but `Fail`. A catch-all may not return by itself:
    it has no idea of what went wrong.
    """
    found = []
    for graph in scopes(scope):
        normal = reached(graph, with_errors=False)
        for state in graph.states.values():
            if state.name not in normal and state.ends_well:
                found.append(f"{state.name} is on the error side and ends well")
            found += [
                f"{state.name} catches everything and goes on at {target} as if nothing were wrong"
                for target in _targets_of_catch_all(state)
                if target in normal and graph.states[target].kind != "Fail"
            ]
    return found


def _targets_of_catch_all(state: State) -> list[str]:
    catches = state.body.get("Catch", ())
    return [catch["Next"] for catch in catches if "States.ALL" in catch["ErrorEquals"]]


def unguarded_path(scope: Scope, *, guard: str, target: str) -> list[str] | None:
    """A way into step `target` on which step `guard` has not succeeded, or `None`.

    Leaving the guard by an error counts as not passed.
    """
    ways: list[list[str]] = [[scope.start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        state = scope.states[way[-1]]
        if state.step == target:
            return way
        if state.name in seen:
            continue
        seen.add(state.name)
        for inner in state.scopes:
            rest = unguarded_path(inner, guard=guard, target=target)
            if rest is not None:
                return [*way, *rest]
        onward = () if _proves(state, guard) else state.on_success
        ways += ([*way, name] for name in (*onward, *state.on_error))
    return None


def _proves(state: State, guard: str) -> bool:
    """Whether the state's success means that `guard` succeeded.

    All branches of a Parallel have to end, so one that cannot end without the guard is enough. A
    Map may have no items and proves nothing.
    """
    if state.step == guard:
        return True
    return state.kind == "Parallel" and any(_must_pass(inner, guard) for inner in state.scopes)


def _must_pass(scope: Scope, guard: str) -> bool:
    ahead, seen = [scope.start], set()
    while ahead:
        state = scope.states[ahead.pop()]
        if state.name in seen:
            continue
        seen.add(state.name)
        proven = _proves(state, guard)
        if state.ends_well and not proven:
            return False
        ahead += (*(() if proven else state.on_success), *state.on_error)
    return True


def task_problems(scope: Scope) -> list[str]:
    """Tasks that could hang, give up at the first hiccup, or wait for a token nobody has."""
    return [problem for state in tasks(scope) for problem in _problems_of(state)]


def _problems_of(task: State) -> Iterator[str]:
    timeout, beat = task.body.get("TimeoutSeconds"), task.body.get("HeartbeatSeconds")
    if timeout is None:
        yield f"{task.name} has no TimeoutSeconds"
    if not task.body.get("Retry"):
        yield f"{task.name} has no Retry"
    if not task.waits_for_token:
        return
    if beat is None:
        yield f"{task.name} waits for a token and has no HeartbeatSeconds"
    elif timeout is not None and beat >= timeout:
        yield f"{task.name} has a HeartbeatSeconds that is not below its TimeoutSeconds"
    if TOKEN not in json.dumps(task.arguments):
        yield f"{task.name} waits for a token that it does not pass on"
