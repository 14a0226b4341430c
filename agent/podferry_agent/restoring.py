"""The `restore` command: the engine restores, then the account's SSH keys are put in place."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from podferry_agent.commands import CommandContext
from podferry_agent.errors import CommandError
from podferry_agent.progress import ProgressReporter
from podferry_agent.snapshot import RestoreOutcome, RestoreSpec, SnapshotError, restore
from podferry_agent.ssh_keys import write_authorized_keys
from podferry_agent.transfer import StoreFactory, TransferScope
from podferry_agent.wire import LISTED_PATHS, RestoreArgs

_LISTED_PROCESSES = 50


@dataclass(slots=True)
class ForkGuard:
    """Says when no program of the box may be started: its files are being replaced."""

    _restores: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def closed(self) -> Iterator[None]:
        with self._lock:
            self._restores += 1
        try:
            yield
        finally:
            with self._lock:
                self._restores -= 1

    @property
    def is_open(self) -> bool:
        return self._restores == 0


@dataclass(frozen=True, slots=True)
class Restoring:
    """Safe to run again: the engine plans anew from the live tree each time."""

    open_store: StoreFactory
    root: Path
    state_dir: Path
    guard: ForkGuard

    def handle(self, context: CommandContext) -> dict[str, object]:
        args = RestoreArgs.parse(context.command.fields())
        scope = TransferScope(args.snapshot_id)
        # Only an environment replaces the box's programs; a volume is just files.
        guard = self.guard.closed() if args.kind == "environment" else nullcontext()
        with guard, self.open_store(scope, context.cancelled) as store:
            progress = ProgressReporter(context.report)
            try:
                outcome = restore(self._spec(args), store, progress, context.cancelled)
            except SnapshotError as error:
                raise CommandError(error.code, str(error), retryable=error.retryable) from error
        write_authorized_keys(self.root, args.ssh_authorized_keys)
        return _result(outcome)

    def _spec(self, args: RestoreArgs) -> RestoreSpec:
        return RestoreSpec(
            kind=cast(Literal["environment", "volume"], args.kind),
            snapshot_id=args.snapshot_id,
            chunk_key=args.chunk_key,
            user_rules=args.rules,
            root=os.fsencode(self.root),
            state_dir=os.fsencode(self.state_dir),
        )


def _result(outcome: RestoreOutcome) -> dict[str, object]:
    return {
        "snapshot_id": outcome.snapshot_id,
        "files": outcome.files,
        "bytes": outcome.bytes,
        "written_bytes": outcome.written_bytes,
        "deleted": outcome.deleted,
        "warnings": list(outcome.warnings)[:LISTED_PATHS],
        "needs_restart": list(outcome.needs_restart)[:_LISTED_PROCESSES],
        "duration_seconds": outcome.duration_seconds,
    }
