"""How much work a reclaim without notice takes with it, beside the interval of the saves.

A writer in each pod appends a line with its time. The stack is that of the chaos tests: the silence
that proves a loss is skipped, but only while every pod of the round is dead already, so that saves
and writers keep the real time up to each kill.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.recovery.pods import (
    LONGEST_SECONDS,
    LOOK_SECONDS,
    MOST_RECOVERIES,
    PROVIDER,
    is_elsewhere,
    reclaim,
    say,
)
from bench.recovery.results import keep
from tests.chaos.world.stack import ChaosStack
from tests.e2e.deployment import Deployment, User

WRITE_SECONDS = 0.5
WRITER = f"""#!/bin/sh
cd /workspace
( number=0
  while sleep {WRITE_SECONDS}; do
    echo "$number $(date +%s.%N)" >> lines
    number=$((number + 1))
  done ) > /dev/null 2>&1 &
"""
SKIP_SECONDS = 40.0
SKIP_AFTER_SECONDS = 10.0


@dataclass(frozen=True)
class Kill:
    """What one machine took with it."""

    lost_seconds: float
    """From the newest line that came back to the kill."""
    said_seconds: float | None
    """The age that the pod itself told of what it came back with."""
    is_gapless: bool
    """Whether no line before the newest one is missing."""


@dataclass
class Victim:
    """A pod, and what was seen of it before its machine went."""

    pod: dict[str, Any]
    machine: dict[str, Any]
    save_id: str | None
    killed_at: float = 0.0

    @classmethod
    def of(cls, view: dict[str, Any]) -> "Victim":
        return cls(view, view["machine"], save_id_of(view))


def measure(args: argparse.Namespace) -> None:
    stack = ChaosStack(args.data, say)
    options = {key: getattr(args, key) for key in ("kills", "pods", "interval", "seed")}
    dice = random.Random(args.seed)
    kills: list[Kill] = []
    try:
        stack.start()
        for sizes in _waves(args.kills, args.pods):
            for found in _wave(stack, sizes, dice, args.interval):
                kills += found
                keep("window", options, args.note, kills)
    finally:
        stack.stop()


def _waves(kills: int, pods: int) -> list[list[int]]:
    """How many machines to kill in each round; pods are new in each wave."""
    sizes = [min(pods, kills - done) for done in range(0, kills, pods)]
    return [sizes[at : at + MOST_RECOVERIES] for at in range(0, len(sizes), MOST_RECOVERIES)]


def _wave(
    stack: ChaosStack, sizes: list[int], dice: random.Random, interval: int
) -> Iterator[list[Kill]]:
    user = Deployment(stack).new_user()
    try:
        pods = _pods(user, max(sizes), interval)
        for size in sizes:
            yield Round(stack, user, dice, interval).run(pods[:size])
    finally:
        user.leave()


def _pods(user: User, count: int, interval: int) -> list[dict[str, Any]]:
    pods = [user.new_pod(PROVIDER, startup_script=WRITER) for _ in range(count)]
    for pod in pods:
        patch = {"save_interval_seconds": interval}
        user.api.call("PATCH", f"/v1/pods/{pod['id']}", json=patch)
    for pod in pods:
        user.api.wait(pod["operation"]["id"], LONGEST_SECONDS)
    say(f"{count} pods run")
    return pods


@dataclass(frozen=True)
class Round:
    """Each pod loses its machine once, at a moment of its own within one interval."""

    stack: ChaosStack
    user: User
    dice: random.Random
    interval: int

    def run(self, pods: list[dict[str, Any]]) -> list[Kill]:
        victims = [Victim.of(self.user.pod(pod)) for pod in pods]
        if not self._until(victims, self._is_saved, LONGEST_SECONDS):
            raise SystemExit(f"not all pods are saved after {LONGEST_SECONDS:.0f} s")
        self._kill(victims)
        deadline = time.monotonic() + LONGEST_SECONDS
        while not self._until(victims, self._is_elsewhere, SKIP_AFTER_SECONDS):
            if time.monotonic() > deadline:
                raise SystemExit(f"not all pods are back after {LONGEST_SECONDS:.0f} s")
            self.stack.let_pass(SKIP_SECONDS)
        kills = [self._look(victim) for victim in victims]
        say("lost: " + ", ".join(f"{kill.lost_seconds:.1f} s" for kill in kills))
        return kills

    def _until(
        self, victims: list[Victim], is_so: Callable[[Victim, dict[str, Any]], bool], seconds: float
    ) -> bool:
        """Whether it came to be so of all within the time."""
        deadline = time.monotonic() + seconds
        left = victims
        while left := [v for v in left if not is_so(v, self.user.pod(v.pod))]:
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def _is_saved(self, victim: Victim, view: dict[str, Any]) -> bool:
        """Whether this machine has saved: the pod is in the midst of its rhythm."""
        return save_id_of(view) not in {None, victim.save_id}

    def _is_elsewhere(self, victim: Victim, view: dict[str, Any]) -> bool:
        return is_elsewhere(view, victim.machine["id"])

    def _kill(self, victims: list[Victim]) -> None:
        began = time.monotonic()
        moments = [(self.dice.uniform(0, self.interval), victim) for victim in victims]
        for moment, victim in sorted(moments, key=lambda each: each[0]):
            time.sleep(max(0.0, began + moment - time.monotonic()))
            victim.killed_at = reclaim(self.user, victim.machine["provider_id"])

    def _look(self, victim: Victim) -> Kill:
        said = self.user.run(victim.pod, "cat /workspace/lines")
        lines = [(int(number), float(at)) for number, at in map(str.split, said.splitlines())]
        before = [line for line in lines if line[1] <= victim.killed_at]
        if not before:
            raise SystemExit(f"pod {victim.pod['id']} came back without any line")
        return Kill(
            lost_seconds=victim.killed_at - before[-1][1],
            said_seconds=self.user.pod(victim.pod)["recovered_from"]["age_seconds"],
            is_gapless=_is_gapless([number for number, _ in before]),
        )


def save_id_of(view: dict[str, Any]) -> str | None:
    return None if view["last_save"] is None else str(view["last_save"]["snapshot_id"])


def _is_gapless(numbers: list[int]) -> bool:
    """Each writer, the first and those after a recovery, counts from 0."""
    follows = zip([-1, *numbers], numbers, strict=False)
    return all(after in (before + 1, 0) for before, after in follows)
