"""The `capture` command: the engine captures, then the control plane is told what to commit."""

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from podferry_agent.api import ApiClient
from podferry_agent.commands import CommandContext
from podferry_agent.errors import CommandError
from podferry_agent.progress import ProgressReporter
from podferry_agent.saving import SaveTimer
from podferry_agent.snapshot import (
    CaptureOutcome,
    CaptureSpec,
    SnapshotError,
    TimeLimit,
    capture,
)
from podferry_agent.transfer import StoreFactory, TransferScope
from podferry_agent.wire import LISTED_PATHS, SNAPSHOT_KINDS, CaptureArgs, is_settled

_LOOK_SECONDS = 0.2


def _lock_each() -> dict[str, threading.Lock]:
    return {kind: threading.Lock() for kind in SNAPSHOT_KINDS}


@dataclass(frozen=True, slots=True)
class Capturing:
    """Safe to run again with the same arguments: objects are named by content, roots compared."""

    api: ApiClient
    open_store: StoreFactory
    saves: SaveTimer
    root: Path
    state_dir: Path
    limit: TimeLimit
    """Of saves, once it is known that the machine goes."""
    _locks: dict[str, threading.Lock] = field(default_factory=_lock_each)

    def handle(self, context: CommandContext) -> dict[str, object]:
        args = CaptureArgs.parse(context.command.fields())
        timed: AbstractContextManager[None] = self.saves.save() if args.is_live else nullcontext()
        with timed, self._turn(args.kind, context):
            result = self._capture(args, context)
            self._hand_in(args, result, context)
        return result

    @contextmanager
    def _turn(self, kind: str, context: CommandContext) -> Iterator[None]:
        """One capture of a tree at a time: a stop's waits until the save that it ends has left."""
        lock = self._locks[kind]
        while not lock.acquire(timeout=_LOOK_SECONDS):
            context.raise_if_cancelled()
        try:
            yield
        finally:
            lock.release()

    def _capture(self, args: CaptureArgs, context: CommandContext) -> dict[str, object]:
        limit = self.limit if args.is_live else TimeLimit()
        scope = TransferScope(args.snapshot_id, args.attempt_id, args.parent, limit)
        with self.open_store(scope, context.cancelled) as store:
            progress = ProgressReporter(context.report)
            try:
                outcome = capture(self._spec(args), store, progress, context.cancelled, limit)
            except SnapshotError as error:
                raise CommandError(error.code, str(error), retryable=error.retryable) from error
        return _result(outcome)

    def _hand_in(
        self, args: CaptureArgs, result: dict[str, object], context: CommandContext
    ) -> None:
        """A save is verified during this call; a large one needs several."""
        body = {
            "snapshot_id": args.snapshot_id,
            "attempt_id": args.attempt_id,
            "root": result["root"],
            "summary": result["summary"],
        }
        while not is_settled(self.api.post("/agent/v1/commit", body, context.cancelled)):
            context.raise_if_cancelled()

    def _spec(self, args: CaptureArgs) -> CaptureSpec:
        return CaptureSpec(
            kind=cast(Literal["environment", "volume"], args.kind),
            snapshot_id=args.snapshot_id,
            parent=args.parent,
            chunk_key=args.chunk_key,
            user_rules=args.rules,
            root=os.fsencode(self.root),
            state_dir=os.fsencode(self.state_dir),
            live=args.is_live,
        )


def _result(outcome: CaptureOutcome) -> dict[str, object]:
    summary = outcome.summary.as_dict()
    for name in ("torn", "unreached", "unreadable", "warnings"):
        summary[name] = list(getattr(outcome.summary, name))[:LISTED_PATHS]
    root = outcome.root
    return {
        "snapshot_id": outcome.snapshot_id,
        "root": {"name": root.name, "size": root.size, "sha256": root.sha256},
        "summary": summary,
    }
