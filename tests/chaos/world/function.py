"""The process of one function whose clock can be skipped ahead.

Stands where the embedded AWS would run its own worker: sets the clock, then becomes that worker.
"""

import os
import runpy
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from podferry.adapters.aws.surroundings import SystemClock

CLOCK = Path(os.environ.pop("CHAOS_CLOCK"))


def _skipped(_: SystemClock) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=float(CLOCK.read_text()))


if __name__ == "__main__":
    SystemClock.now = _skipped  # type: ignore[method-assign]
    worker, handler = sys.argv[-2:]
    sys.argv = [worker, handler]
    runpy.run_path(worker, run_name="__main__")
