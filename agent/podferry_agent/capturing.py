"""The `capture` command: the engine captures, then the control plane is told what to commit."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from podferry_agent.api import ApiClient
from podferry_agent.commands import CommandContext
from podferry_agent.errors import CommandError
from podferry_agent.progress import ProgressReporter
from podferry_agent.snapshot import CaptureOutcome, CaptureSpec, SnapshotError, capture
from podferry_agent.transfer import StoreFactory, TransferScope
from podferry_agent.wire import LISTED_PATHS, CaptureArgs


@dataclass(frozen=True, slots=True)
class Capturing:
    """Safe to run again with the same arguments: objects are named by content, roots compared."""

    api: ApiClient
    open_store: StoreFactory
    root: Path
    state_dir: Path

    def handle(self, context: CommandContext) -> dict[str, object]:
        args = CaptureArgs.parse(context.command.fields())
        scope = TransferScope(args.snapshot_id, args.attempt_id, args.parent)
        with self.open_store(scope, context.cancelled) as store:
            progress = ProgressReporter(context.report)
            try:
                outcome = capture(self._spec(args), store, progress, context.cancelled)
            except SnapshotError as error:
                raise CommandError(error.code, str(error), retryable=error.retryable) from error
        result = _result(outcome)
        self.api.post(
            "/agent/v1/commit",
            {
                "snapshot_id": args.snapshot_id,
                "attempt_id": args.attempt_id,
                "root": result["root"],
                "summary": result["summary"],
            },
            context.cancelled,
        )
        return result

    def _spec(self, args: CaptureArgs) -> CaptureSpec:
        return CaptureSpec(
            kind=cast(Literal["environment", "volume"], args.kind),
            snapshot_id=args.snapshot_id,
            parent=args.parent,
            chunk_key=args.chunk_key,
            user_rules=args.rules,
            root=os.fsencode(self.root),
            state_dir=os.fsencode(self.state_dir),
        )


def _result(outcome: CaptureOutcome) -> dict[str, object]:
    summary = outcome.summary.as_dict()
    for name in ("torn", "unreadable", "warnings"):
        summary[name] = list(getattr(outcome.summary, name))[:LISTED_PATHS]
    root = outcome.root
    return {
        "snapshot_id": outcome.snapshot_id,
        "root": {"name": root.name, "size": root.size, "sha256": root.sha256},
        "summary": summary,
    }
