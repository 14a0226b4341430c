"""State reaches the disk while the emulator runs, not only when it ends.

MiniStack saves at a clean shutdown, so a crash loses everything since the start. Here

- what a deployment made is saved before its stacks are seen to be complete,
- a change of a service in `PROMPT` is saved before it is answered,
- any other within half a second, or, if the state is large, so seldom that saving takes at most a
  twentieth of the time. Items of tables need no more than that: they have a journal.

Saving runs on the event loop: from a thread, a request would change the state in the middle of a
copy.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from ministack import app as ministack_app
from ministack.core import persistence
from ministack.services import lambda_svc, stepfunctions

from local.aws.shims import guard

SHORTEST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
COST_FACTOR = 20
# Copies race with the emulator's own threads (executions, deployments); one of these will not.
ATTEMPTS = 5
# Changes all other services, in a task that goes on after the answer.
DEPLOYER = "cloudformation"
# By name of the state: small, seldom changed, and believed by whoever changed them. The actions
# change nothing that is kept, or have a journal.
PROMPT = {
    "dynamodb": {
        *("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"),
        *("ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"),
    },
    "eventbridge": {"PutEvents", "PutPartnerEvents", "TestEventPattern"},
    "secretsmanager": set[str](),
}
READS = ("Get", "List", "Describe", "Query", "Scan", "BatchGet", "TransactGet", "Search")


@dataclass(slots=True)
class Changes:
    """Which services changed since their last save, and what saving each of them costs."""

    changed: set[str] = field(default_factory=set)
    deploying_since: float | None = None
    saved_at: dict[str, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    unhurried: set[str] = field(default_factory=set)

    def take_time(self, service: str) -> None:
        """Nothing is lost if this service is saved as seldom as is allowed."""
        self.unhurried.add(service)

    def note(self, service: str) -> None:
        self.changed.add(service)

    def is_deploying(self, now: float) -> bool:
        """While stacks change nothing is saved, for half a stack could not be deployed again."""
        return self.deploying_since is not None and now - self.deploying_since < LONGEST_SECONDS

    def due(self, now: float) -> list[str]:
        return sorted(name for name in self.changed if now - self._saved(name) >= self._wait(name))

    def tried(self, service: str, seconds: float) -> None:
        self.saved_at[service] = time.monotonic()
        self.cost[service] = seconds

    def _saved(self, service: str) -> float:
        return self.saved_at.get(service, 0.0)

    def _wait(self, service: str) -> float:
        if service in self.unhurried:
            return LONGEST_SECONDS
        wanted = COST_FACTOR * self.cost.get(service, 0.0)
        return min(LONGEST_SECONDS, max(SHORTEST_SECONDS, wanted))


def apply() -> Changes:
    """Notes changes where they are made and starts the saver with the event loop."""
    changes = Changes()
    guard.take(ministack_app, "_build_persistence_save_dict")
    guard.replace(ministack_app, "save_all", _save_all)
    _note_requests(changes)
    _note_threads(changes)
    _start_with_server(changes)
    return changes


def _note_requests(changes: Changes) -> None:
    handlers: dict[str, Any] = guard.take(ministack_app, "SERVICE_HANDLERS")
    registry: dict[str, Any] = guard.take(ministack_app, "SERVICE_REGISTRY")
    for service, handler in handlers.items():
        config = registry[service]
        names = {config.get("state_key", config["module"]), *config.get("sub_modules", ())}
        handlers[service] = _noting(handler, changes, names)
    handlers[DEPLOYER] = _watching_deployments(handlers[DEPLOYER], changes)


def _noting(handler: Any, changes: Changes, names: set[str]) -> Any:
    async def handle(method: str, path: str, headers: Any, body: Any, query: Any) -> Any:
        try:
            return await handler(method, path, headers, body, query)
        finally:
            action = headers.get("x-amz-target", "").rpartition(".")[2]
            if not _only_reads(method, action):
                changes.changed.update(names)
                _save_promptly(names, action, changes)

    return handle


def _only_reads(method: str, action: str) -> bool:
    return action.startswith(READS) if action else method in {"GET", "HEAD"}


def _save_promptly(names: set[str], action: str, changes: Changes) -> None:
    if changes.is_deploying(time.monotonic()):
        return
    for service in names & PROMPT.keys():
        if action not in PROMPT[service] and not _save(service, changes):
            raise RuntimeError(f"{service} could not be saved, so {action} is not acknowledged")


def _watching_deployments(handler: Any, changes: Changes) -> Any:
    async def handle(method: str, path: str, headers: Any, body: bytes, query: Any) -> Any:
        action = parse_qs(body.decode()).get("Action", [""])[0]
        if not action.startswith(("Describe", "Get", "List", "Validate")):
            changes.deploying_since = time.monotonic()
        answer = await handler(method, path, headers, body, query)
        # Who reads that a stack is complete may rely on finding it after a crash.
        _end_deployment(changes)
        return answer

    return handle


def _end_deployment(changes: Changes) -> None:
    """Saves all that a deployment made, when no stack is in motion any more.

    The stacks come last: if they were saved without their resources, the next deployment would find
    nothing to do.
    """
    if changes.deploying_since is None or _is_any_stack_moving():
        return
    services = ministack_app._build_persistence_save_dict()
    for service in sorted(services, key=lambda name: name == DEPLOYER):
        _save(service, changes)
    changes.deploying_since = None


def _is_any_stack_moving() -> bool:
    deployer = ministack_app._loaded_modules.get(DEPLOYER)
    stacks = deployer._stacks.all_values() if deployer else []
    return any(stack["StackStatus"].endswith("IN_PROGRESS") for stack in stacks)


def _note_threads(changes: Changes) -> None:
    """Executions and function calls change state outside of requests."""
    add_event = guard.take(stepfunctions, "_add_event")
    emit_logs = guard.take(lambda_svc, "_emit_lambda_logs")

    def add(*args: Any, **kwargs: Any) -> Any:
        changes.note("stepfunctions")
        return add_event(*args, **kwargs)

    def emit(*args: Any, **kwargs: Any) -> Any:
        changes.note("cloudwatch_logs")
        return emit_logs(*args, **kwargs)

    guard.replace(stepfunctions, "_add_event", add)
    guard.replace(lambda_svc, "_emit_lambda_logs", emit)


def _start_with_server(changes: Changes) -> None:
    lifespan = guard.take(ministack_app, "_handle_lifespan")

    async def run(scope: Any, receive: Any, send: Any) -> None:
        saver = asyncio.create_task(_save_for_ever(changes))
        try:
            await lifespan(scope, receive, send)
        finally:
            saver.cancel()

    guard.replace(ministack_app, "_handle_lifespan", run)


async def _save_for_ever(changes: Changes) -> None:
    while True:
        await asyncio.sleep(SHORTEST_SECONDS / 5)
        _end_deployment(changes)
        now = time.monotonic()
        for service in [] if changes.is_deploying(now) else changes.due(now):
            _save(service, changes)
            await asyncio.sleep(0)


def _save(service: str, changes: Changes) -> bool:
    # Before the copy: what a thread changes from here on has to be saved once more.
    changes.changed.discard(service)
    collect = ministack_app._build_persistence_save_dict().get(service)
    started = time.perf_counter()
    is_saved = collect is None or _save_state(service, collect)
    if not is_saved:
        changes.note(service)
    changes.tried(service, time.perf_counter() - started)
    return is_saved


def _save_all(services: dict[str, Any]) -> None:
    """At the end of the process; a service that fails does not keep the others from the disk."""
    for service, collect in services.items():
        _save_state(service, collect)


def _save_state(service: str, collect: Any) -> bool:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            persistence.save_state(service, collect())
        except (RuntimeError, OSError) as problem:
            # RuntimeError: a thread of the emulator changed the state in the middle.
            if attempt == ATTEMPTS:
                persistence.logger.error("saving %s failed: %r", service, problem)
        else:
            return True
    return False
