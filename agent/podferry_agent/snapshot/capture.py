"""Captures a tree; as soon as the machine's end is known, with what can be had until then."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from podferry_agent.snapshot.capturerun import CaptureRun
from podferry_agent.snapshot.errors import CaptureFailedError, OutOfTimeError
from podferry_agent.snapshot.hurry import HurriedRun
from podferry_agent.snapshot.memory import for_big_buffers
from podferry_agent.snapshot.model import CaptureOutcome, CaptureSpec, ObjectStore, Progress
from podferry_agent.snapshot.pace import Pace, be_nice
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.timelimit import Span, TimeLimit
from podferry_agent.snapshot.tree import Tree


def capture(
    spec: CaptureSpec,
    store: ObjectStore,
    progress: Callable[[Progress], None],
    cancelled: threading.Event,
    limit: TimeLimit | None = None,
) -> CaptureOutcome:
    """Capture the tree of `spec` into `store`. The snapshot exists when this returns, not before.

    `limit` is for live captures. Once it is set, what runs begins anew, in a hurry; what was
    stored is used. The outcome may then be a partial snapshot, see `Summary.is_partial`.

    Raises a `SnapshotError`; then nothing refers to what was uploaded.
    """
    try:
        tree = Tree(spec.tree_root)
    except OSError as error:
        where = os.fsdecode(spec.tree_root)
        raise CaptureFailedError(f"{where} cannot be opened: {error.strerror}") from error
    limit = limit if limit and spec.live else TimeLimit()
    with tree, for_big_buffers():
        while True:
            span = limit.begin()
            try:
                return _run((spec, store, tree), Meter(progress, cancelled), cancelled, span)
            except OutOfTimeError:
                if span.is_hurried:
                    span.note_cut()
                    raise


def _run(
    what: tuple[CaptureSpec, ObjectStore, Tree],
    meter: Meter,
    cancelled: threading.Event,
    span: Span,
) -> CaptureOutcome:
    share = None if span.is_hurried else what[0].share
    kind = HurriedRun if span.is_hurried else CaptureRun
    run = kind(*what, meter, Pace(share, cancelled, span)).run
    return run() if share is None else _nicely(run)


def _nicely(run: Callable[[], CaptureOutcome]) -> CaptureOutcome:
    """In a thread of its own: an ordinary user cannot take back a lower priority."""
    with ThreadPoolExecutor(1, "pf-nice", initializer=be_nice) as pool:
        return pool.submit(run).result()
