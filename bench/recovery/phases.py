"""How long a pod takes to come back after a reclaim without notice, phase by phase.

On a local stack whose clocks nobody touches: the silence that proves a loss is waited for.
"""

import argparse
import base64
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.recovery.pods import MOST_RECOVERIES, PROVIDER, reclaim, say, until_elsewhere
from bench.recovery.results import keep
from local.demo import pod_shell
from local.stack import LocalStack
from tests.e2e.deployment import DIGEST, Deployment, User

FILL = Path(__file__).with_name("fill.py")
LIMIT_SECONDS = 600
PHASES = (
    "loss noticed",
    "machine rented",
    "agent registered",
    "environment restored",
    "volume restored",
    "startup script and probe",
    "running, as the API shows it",
)


@dataclass(frozen=True)
class Recovery:
    """One kill: seconds of each phase, in the order of `PHASES`, and what came back."""

    gb: float
    seconds: list[float]
    total: float
    environment: dict[str, float]
    """What was restored of it; `written_bytes` are those that the image had not."""
    volume: dict[str, float]
    is_same: bool


def measure(args: argparse.Namespace) -> None:
    if not 1 <= args.rounds <= MOST_RECOVERIES:
        raise SystemExit(f"--rounds: from 1 to {MOST_RECOVERIES}; a pod gets no more an hour")
    stack = LocalStack(args.data, say)
    try:
        stack.start()
        user = Deployment(stack).new_user()
        try:
            rows = _measure(user, args.gb, args.rounds)
        finally:
            user.leave()
    finally:
        stack.stop()
    options = {"gb": args.gb, "rounds": args.rounds}
    keep(f"phases-{args.gb:04g}", options, args.note, rows)


def _measure(user: User, gb: float, rounds: int) -> list[Recovery]:
    pod = _pod_with_both_snapshots(user, gb)
    digest = user.run(pod, DIGEST, LIMIT_SECONDS)
    return [_kill(user, pod, gb, digest) for _ in range(rounds)]


def _pod_with_both_snapshots(user: User, gb: float) -> dict[str, Any]:
    """One that has been stopped, so that there is an environment to restore, and then filled."""
    pod = user.running_pod(PROVIDER)
    user.do(pod, "stop")
    user.do(pod, "start")
    source = base64.b64encode(FILL.read_bytes()).decode()
    command = {"argv": ["python3", "-B", "-", str(round(gb * 1000))], "stdin": source}
    began = time.monotonic()
    files = int(pod_shell.run(user.api, pod["id"], LIMIT_SECONDS, **command))
    say(f"{gb:g} GB in {files} files, written in {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    user.api.wait(user.ask(pod, "save"), LIMIT_SECONDS)
    say(f"saved in {time.monotonic() - began:.0f} s")
    return pod


def _kill(user: User, pod: dict[str, Any], gb: float, digest: str) -> Recovery:
    view = user.pod(pod)
    killed_at = reclaim(user, view["machine"]["provider_id"])
    until_elsewhere(user, pod, view["machine"]["id"])
    seen_at = time.time()
    events = user.api.get(f"/v1/pods/{pod['id']}/events?limit=100")["data"]
    lost = next(e for e in events if e["type"] == "machine.lost")  # the newest comes first
    operation = user.api.get(f"/v1/operations/{lost['operation_id']}")
    moments = [killed_at, *_moments(operation), seen_at]
    seconds = [after - before for before, after in pairwise(moments)]
    recovery = Recovery(
        gb=gb,
        seconds=seconds,
        total=seen_at - killed_at,
        environment=_facts(operation, "restore_environment"),
        volume=_facts(operation, "restore_volume"),
        is_same=user.run(pod, DIGEST, LIMIT_SECONDS) == digest,
    )
    say(f"back after {recovery.total:.1f} s: {dict(zip(PHASES, seconds, strict=True))}")
    return recovery


def _facts(operation: dict[str, Any], step: str) -> dict[str, float]:
    names = ("files", "bytes", "written_bytes", "duration_seconds")
    return {name: operation["result"][step][name] for name in names}


def _moments(operation: dict[str, Any]) -> list[float]:
    """The ends of all phases but the last. A restore ends where the next command is given."""
    at = {m["phase"]: m["at"] for m in operation["milestones"]}
    ends = (
        operation["created_at"],
        at["rented"],
        at["agent_registered"],
        at["restore-volume"],
        at["run"],
        at["ready"],
    )
    return [datetime.fromisoformat(each).timestamp() for each in ends]
