"""A process that saves a tree again and again, as an agent does while programs write to it.

Each save is a first one, so that there is work for the whole time; it says what each one was.
"""

import argparse
import json
import os
import shutil
import threading
import time
from pathlib import Path

from podferry_agent.snapshot import CaptureSpec, capture
from podferry_agent.snapshot.directorystore import DirectoryStore


def save(work: Path, number: int) -> dict[str, float]:
    """The directories are those of `bench.recovery.slowdown`."""
    spec = CaptureSpec(
        kind="volume",
        snapshot_id=f"s{number}",
        chunk_key=bytes(32),
        root=os.fsencode(work / "pod"),
        state_dir=os.fsencode(work / "state"),
        live=True,
    )
    began, used = time.monotonic(), time.process_time()
    store = DirectoryStore(work / "store", spec.snapshot_id, is_checking=False)
    summary = capture(spec, store, lambda _: None, threading.Event()).summary
    return {
        "seconds": time.monotonic() - began,
        "processor_seconds": time.process_time() - used,
        "bytes": summary.bytes,
        "pauses": summary.pauses,
        "paused_ms": summary.paused_ms,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.recovery.saver", description=__doc__)
    parser.add_argument("work", type=Path)
    work = parser.parse_args().work
    number = 0
    while True:
        for name in ("state", "store"):
            shutil.rmtree(work / name, ignore_errors=True)
            (work / name).mkdir()
        print(json.dumps({"begins": number}), flush=True)
        print(json.dumps(save(work, number)), flush=True)
        number += 1


if __name__ == "__main__":
    main()
