"""Every interleaving of users, agents, providers, functions and time keeps the promises."""

import os
from datetime import timedelta

import promises
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant
from invariants import check_at_rest
from storms import LyingStorms, Storms

from podferry.domain.ghost import Ghost
from podferry.domain.machine import Machine
from podferry.domain.operation import Operation, OperationState
from podferry.domain.pod import Pod, PodState
from podferry.domain.volume import Volume

EXAMPLES = int(os.environ.get("PODFERRY_MODEL_EXAMPLES", "0"))
STEPS = int(os.environ.get("PODFERRY_MODEL_STEPS", "30"))
TO_SETTLE = 3 * 3600
"""Seconds that everything may take to come to rest once all faults have ended."""


class Lifecycle(Storms):
    """The control plane fails; providers tell the truth."""

    @invariant()
    def promises_hold(self) -> None:
        if not hasattr(self, "world"):
            return
        for promise in promises.ALWAYS:
            self.world.hold(promise)
        assert not self.world.broken, self.world.broken

    def teardown(self) -> None:
        if not hasattr(self, "world") or self.world.broken:
            return
        self.heal()
        # The one of each day: nothing else looks for what is found again while nothing runs.
        self.world.sweep()
        self.go(TO_SETTLE, until=self._is_settled)
        self._check_rest()
        self._stop_all()
        for pod in self.pods():
            self._check_comes_back(pod)
        assert self.world.every_box() == [b for b in self.world.every_box() if b.is_gone]

    def _is_settled(self) -> bool:
        store = self.world.store
        machines = {m.stamp: m for m in store.list_active(Machine)}
        left = [m for m in machines.values() if m.give_up_at is not None]
        # Neither a machine that nobody knows nor one that is gone and not missed yet.
        strangers = sorted(b.request.stamp for b in self.boxes()) != sorted(machines)
        saves = [v for v in self.world.of(Volume) if v.saving.open_id is not None]
        at_work = [one for kind in (Operation, Ghost) for one in store.list_active(kind)]
        return not (left or strangers or saves or at_work)

    def _check_rest(self) -> None:
        for pod in self.world.of(Pod):
            check_at_rest(self.world, pod)
        self.promises_hold()

    def _stop_all(self) -> None:
        for pod in self.pods():
            if pod.state == PodState.RUNNING:
                self._succeed(pod, "stop")
        self._check_rest()
        # Hosts that failed a pod are avoided for so long.
        self.world.clock.advance(timedelta(hours=1))

    def _check_comes_back(self, pod: Pod) -> None:
        """Whatever was saved is there; promise 7 is checked at its start."""
        self._succeed(pod, "start")
        self._succeed(pod, "stop")
        self._check_rest()

    def _succeed(self, pod: Pod, verb: str) -> None:
        reply = self.ask("POST", f"/v1/pods/{pod.id}/{verb}", {})
        assert reply is not None
        assert reply.status == 202, reply.text
        self.go(TO_SETTLE, until=self._is_settled)
        ended = self.world.known(Operation, reply.json["id"])
        assert ended.state == OperationState.SUCCEEDED, ended
        self.promises_hold()


class WithLiars(LyingStorms, Lifecycle):
    """Everything fails."""


def profile(examples: int) -> settings:
    """The same histories each time, unless more were asked for: then new ones."""
    return settings(
        max_examples=EXAMPLES or examples,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=EXAMPLES == 0,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


TestLifecycle = pytest.mark.timeout(0)(Lifecycle.TestCase)
TestLifecycle.settings = profile(25)
TestWithLiars = pytest.mark.timeout(0)(WithLiars.TestCase)
TestWithLiars.settings = profile(25)
