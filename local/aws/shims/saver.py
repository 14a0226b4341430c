"""State reaches the disk while the emulator runs, not only when it ends.

MiniStack saves at a clean shutdown, so a crash loses everything since the start. Here each service
is saved within half a second of a change, or, if its state is large, so seldom that saving takes at
most a twentieth of the time. Saving runs on the event loop: from a thread, a request would change
the state in the middle of a copy.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ministack import app as ministack_app
from ministack.core import persistence
from ministack.services import lambda_svc, stepfunctions

from local.aws.shims import guard

SHORTEST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
COST_FACTOR = 20
# Copies race with the emulator's own threads (executions, deployments); one of these will not.
COPY_ATTEMPTS = 5
# Requests to these change other services, in threads that go on after the answer.
CHANGES_EVERYTHING = frozenset({"cloudformation"})


@dataclass(slots=True)
class Journal:
    """Which services changed since their last save, and what saving each of them costs."""

    changed: set[str] = field(default_factory=set)
    saved_at: dict[str, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)

    def note(self, service: str) -> None:
        self.changed.add(service)

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
    guard.replace(persistence, "save_state", _write)
    _note_requests(journal)
    _note_threads(journal)
    _start_with_server(journal)


def _note_requests(journal: Journal) -> None:
    handlers: dict[str, Any] = guard.take(ministack_app, "SERVICE_HANDLERS")
    registry: dict[str, Any] = guard.take(ministack_app, "SERVICE_REGISTRY")
    for service, handler in handlers.items():
        config = registry[service]
        names = {config.get("state_key", config["module"]), *config.get("sub_modules", ())}
        handlers[service] = _noting(handler, journal, service, names)


def _noting(handler: Any, journal: Journal, service: str, names: set[str]) -> Any:
    async def handle(method: str, path: str, headers: Any, body: Any, query: Any) -> Any:
        try:
            return await handler(method, path, headers, body, query)
        finally:
            if service in CHANGES_EVERYTHING:
                journal.changed.update(ministack_app._build_persistence_save_dict())
            elif not _only_reads(method, headers):
                journal.changed.update(names)

    return handle


def _only_reads(method: str, headers: dict[str, str]) -> bool:
    action = headers.get("x-amz-target", "").rpartition(".")[2]
    if action:
        return action.startswith(("Get", "List", "Describe", "Query", "Scan", "BatchGet"))
    return method in {"GET", "HEAD"}


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
        for service in journal.due(time.monotonic()):
            _save(service, journal)
            await asyncio.sleep(0)


def _save(service: str, journal: Journal) -> None:
    collect = ministack_app._build_persistence_save_dict().get(service)
    started = time.perf_counter()
    if collect is not None:
        state = _copy(service, collect)
        if state is not None:
            persistence.save_state(service, state)
    journal.saved(service, time.perf_counter() - started)


def _copy(service: str, collect: Any) -> Any:
    for attempt in range(COPY_ATTEMPTS):
        try:
            return collect()
        except RuntimeError as changed:
            if attempt == COPY_ATTEMPTS - 1:
                persistence.logger.error("saving %s failed: %s", service, changed)
    return None


def _write(service: str, state: Any) -> None:
    """The emulator's own format; `dumps` is several times as fast as its `dump`."""
    document = {
        "__ministack_format__": persistence._state_format_version(service),
        "payload": state,
    }
    text = json.dumps(document, default=persistence._json_default)
    path = Path(persistence.STATE_DIR, f"{service}.json")
    draft = path.with_suffix(".json.tmp")
    draft.write_text(text)
    draft.replace(path)
