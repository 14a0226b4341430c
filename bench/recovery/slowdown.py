"""What a background save costs the programs of a pod: their work with and without one, in turns.

The engine runs as in an agent (niced, half a core, may pause a writer for a moment), the programs
on all cores beside it. Each round measures a stretch with and one without saves, which comes first
alternates; a ratio compares the two of one round, because the speed of a machine drifts.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, TypeAlias

from bench.recovery import fill
from bench.recovery.pods import say
from bench.recovery.results import keep
from bench.tools import own_environment

BLOCK = 1 << 20
FILE_BLOCKS = 64
WARM_SECONDS = 1.0
AUTOGROUP = Path("/proc/self/autogroup")
Counter: TypeAlias = "Synchronized[int]"


@dataclass(frozen=True)
class Turn:
    """MB of work a second, of one kind of program on all cores, and the saves meanwhile."""

    kind: str
    alone: float
    beside_saves: float
    saves: list[dict[str, float]]
    """Those that came to an end."""


def compute(counter: Counter, _: Path) -> None:
    block = random.randbytes(BLOCK)
    while True:
        hashlib.blake2b(block).digest()
        counter.value += 1


def write(counter: Counter, path: Path) -> None:
    """As a log or a checkpoint is written: from the start to the end, then anew."""
    block = random.randbytes(BLOCK)
    while True:
        with path.open("wb", buffering=0) as file:
            for _ in range(FILE_BLOCKS):
                file.write(block)
                counter.value += 1


KINDS: dict[str, Callable[[Counter, Path], None]] = {"compute": compute, "write": write}


def measure(args: argparse.Namespace) -> None:
    random.seed(1)
    tree = args.data / "pod/workspace"
    fill.PLACE = tree / "data"
    fill.fill(args.mb * fill.MB)
    turns: list[Turn] = []
    with _ahead() if args.ahead else nullcontext():
        for number in range(args.rounds):
            for kind, program in KINDS.items():
                with _programs(program, tree) as counters:
                    turns.append(_turn(kind, counters, args, saves_first=number % 2 == 1))
                say(f"{number} {turns[-1]}")
    options = {"mb": args.mb, "rounds": args.rounds, "seconds": args.seconds}
    keep("slowdown", options, args.note, turns)


@contextmanager
def _ahead() -> Iterator[None]:
    """Our session before those of others; within it, niceness counts as in a container."""
    before = AUTOGROUP.read_text().split()[-1]
    AUTOGROUP.write_text("-20")
    try:
        yield
    finally:
        AUTOGROUP.write_text(before)


def _turn(
    kind: str, counters: list[Counter], args: argparse.Namespace, *, saves_first: bool
) -> Turn:
    rates: dict[bool, float] = {}
    saves: list[dict[str, float]] = []
    for with_saves in (saves_first, not saves_first):
        if with_saves:
            with _saver(args.data) as said:
                rates[True] = _rate(counters, args.seconds)
            saves = [line for line in said if "seconds" in line]
        else:
            rates[False] = _rate(counters, args.seconds)
    return Turn(kind, rates[False], rates[True], saves)


def _rate(counters: list[Counter], seconds: float) -> float:
    time.sleep(WARM_SECONDS)
    began, before = time.monotonic(), sum(counter.value for counter in counters)
    time.sleep(seconds)
    done = sum(counter.value for counter in counters) - before
    return done * BLOCK / 1e6 / (time.monotonic() - began)


@contextmanager
def _programs(program: Callable[[Counter, Path], None], tree: Path) -> Iterator[list[Counter]]:
    """One on each core."""
    context = multiprocessing.get_context("spawn")
    counters = [context.Value("q", 0) for _ in range(os.cpu_count() or 1)]
    processes = [
        context.Process(target=program, args=(counter, tree / f"program-{number}"), daemon=True)
        for number, counter in enumerate(counters)
    ]
    for process in processes:
        process.start()
    try:
        while not all(counter.value for counter in counters):
            time.sleep(0.1)
        yield counters
    finally:
        for process in processes:
            process.kill()
            process.join()


@contextmanager
def _saver(work: Path) -> Iterator[list[dict[str, Any]]]:
    """Saves go on until the block ends; then the list has what was said of them."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.recovery.saver", str(work)],
        env=own_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said: list[dict[str, Any]] = [json.loads(process.stdout.readline())]
    try:
        yield said
    finally:
        process.kill()
        said += [json.loads(line) for line in process.stdout]
        process.wait()
