"""State reaches the disk while the emulator runs, not only when it ends.

MiniStack saves at a clean shutdown, so a crash loses everything since the start. Here each service
is saved within half a second of a change, or, if its state is large, so seldom that saving takes at
most a twentieth of the time. Saving runs on the event loop: from a thread, a request would change
the state in the middle of a copy.
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


@dataclass(slots=True)
class Journal:
    """Which services changed since their last save, and what saving each of them costs."""

    changed: set[str] = field(default_factory=set)
    deploying_since: float | None = None
    saved_at: dict[str, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)

    def note(self, service: str) -> None:
        self.changed.add(service)

    def is_deploying(self, now: float) -> bool:
        """While stacks change nothing is saved, for half a stack could not be deployed again."""
        return self.deploying_since is not None and now - self.deploying_since < LONGEST_SECONDS

    def due(self, now: float) -> list[str]:
        return sorted(name for name in self.changed if now - self._saved(name) >= self._wait(name))

    def saved(self, service: str, seconds: float) -> None:
        self.changed.discard(service)
        self.saved_at[service] = time.monotonic()
        self.cost[service] = seconds

    def _saved(self, service: str) -> float:
        return self.saved_at.get(service, 0.0)

    def _wait(self, service: str) -> float:
        wanted = COST_FACTOR * self.cost.get(service, 0.0)
        return min(LONGEST_SECONDS, max(SHORTEST_SECONDS, wanted))


def apply() -> None:
    """Notes changes where they are made and starts the saver with the event loop."""
    journal = Journal()
    guard.take(ministack_app, "_build_persistence_save_dict")
    guard.replace(ministack_app, "save_all", _save_all)
    _note_requests(journal)
    _note_threads(journal)
    _start_with_server(journal)


def _note_requests(journal: Journal) -> None:
    handlers: dict[str, Any] = guard.take(ministack_app, "SERVICE_HANDLERS")
    registry: dict[str, Any] = guard.take(ministack_app, "SERVICE_REGISTRY")
    for service, handler in handlers.items():
        config = registry[service]
        names = {config.get("state_key", config["module"]), *config.get("sub_modules", ())}
        handlers[service] = _noting(handler, journal, names)
    handlers[DEPLOYER] = _watching_deployments(handlers[DEPLOYER], journal)


def _noting(handler: Any, journal: Journal, names: set[str]) -> Any:
    async def handle(method: str, path: str, headers: Any, body: Any, query: Any) -> Any:
        try:
            return await handler(method, path, headers, body, query)
        finally:
            if not _only_reads(method, headers):
                journal.changed.update(names)

    return handle


def _only_reads(method: str, headers: dict[str, str]) -> bool:
    action = headers.get("x-amz-target", "").rpartition(".")[2]
    if action:
        return action.startswith(("Get", "List", "Describe", "Query", "Scan", "BatchGet"))
    return method in {"GET", "HEAD"}


def _watching_deployments(handler: Any, journal: Journal) -> Any:
    async def handle(method: str, path: str, headers: Any, body: bytes, query: Any) -> Any:
        action = parse_qs(body.decode()).get("Action", [""])[0]
        if not action.startswith(("Describe", "Get", "List", "Validate")):
            journal.deploying_since = time.monotonic()
        answer = await handler(method, path, headers, body, query)
        # Who reads that a stack is complete may rely on finding it after a crash.
        _end_deployment(journal)
        return answer

    return handle


def _end_deployment(journal: Journal) -> None:
    """Saves all that a deployment made, when no stack is in motion any more.

    The stacks come last: if they were saved without their resources, the next deployment would find
    nothing to do.
    """
    if journal.deploying_since is None or _is_any_stack_moving():
        return
    services = ministack_app._build_persistence_save_dict()
    for service in sorted(services, key=lambda name: name == DEPLOYER):
        _save(service, journal)
    journal.deploying_since = None


def _is_any_stack_moving() -> bool:
    deployer = ministack_app._loaded_modules.get(DEPLOYER)
    stacks = deployer._stacks.all_values() if deployer else []
    return any(stack["StackStatus"].endswith("IN_PROGRESS") for stack in stacks)


def _note_threads(journal: Journal) -> None:
    """Executions and function calls change state outside of requests."""
    add_event = guard.take(stepfunctions, "_add_event")
    emit_logs = guard.take(lambda_svc, "_emit_lambda_logs")

    def add(*args: Any, **kwargs: Any) -> Any:
        journal.note("stepfunctions")
        return add_event(*args, **kwargs)

    def emit(*args: Any, **kwargs: Any) -> Any:
        journal.note("cloudwatch_logs")
        return emit_logs(*args, **kwargs)

    guard.replace(stepfunctions, "_add_event", add)
    guard.replace(lambda_svc, "_emit_lambda_logs", emit)


def _start_with_server(journal: Journal) -> None:
    lifespan = guard.take(ministack_app, "_handle_lifespan")

    async def run(scope: Any, receive: Any, send: Any) -> None:
        saver = asyncio.create_task(_save_for_ever(journal))
        try:
            await lifespan(scope, receive, send)
        finally:
            saver.cancel()

    guard.replace(ministack_app, "_handle_lifespan", run)


async def _save_for_ever(journal: Journal) -> None:
    while True:
        await asyncio.sleep(SHORTEST_SECONDS / 5)
        _end_deployment(journal)
        now = time.monotonic()
        for service in [] if journal.is_deploying(now) else journal.due(now):
            _save(service, journal)
            await asyncio.sleep(0)


def _save(service: str, journal: Journal) -> None:
    collect = ministack_app._build_persistence_save_dict().get(service)
    started = time.perf_counter()
    if collect is not None:
        _save_state(service, collect)
    journal.saved(service, time.perf_counter() - started)


def _save_all(services: dict[str, Any]) -> None:
    """At the end of the process; a service that fails does not keep the others from the disk."""
    for service, collect in services.items():
        _save_state(service, collect)


def _save_state(service: str, collect: Any) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            persistence.save_state(service, collect())
        except (RuntimeError, OSError) as problem:
            # RuntimeError: a thread of the emulator changed the state in the middle.
            if attempt == ATTEMPTS:
                persistence.logger.error("saving %s failed: %r", service, problem)
        else:
            return
