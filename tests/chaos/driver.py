"""Carries a plan out on a stack, then lets the dust settle."""

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import httpx

from local.api import ApiError
from local.stack import CONTROL_STACK
from tests.chaos.plan import ACTIONS, Plan, Step
from tests.chaos.proxy import Mischief
from tests.chaos.world.account import Account, PodUnderTest, UnansweredError
from tests.chaos.world.stack import ChaosStack
from tests.e2e.deployment import Deployment

SETTLE_TIME = timedelta(minutes=25)
"""Of the deployment's clock: longer than any deadline that a launch without an agent has."""
SETTLE_SECONDS = 400.0
"""Of real time, on a machine on which everything takes three times as long."""
SETTLE_SKIP_SECONDS = 40.0
SETTLE_LOOK_SECONDS = 0.7
LOOKS_AT_WORK = 12
LOOKS_AT_REST = 2
LOOK_SECONDS = 8
AWAIT_SECONDS = 20.0
BALANCE_MICROS = 1_000_000_000
AT_REST = frozenset({"running", "stopped", "deleted"})
_AGENTS = "for p in /proc/[0-9]*; do grep -qa podferry_agent $p/cmdline && echo ${p#/proc/}; done"
_GONE = frozenset({"gone", "failed"})


def are_at_rest(views: Iterable[Mapping[str, Any]], standing: Iterable[Mapping[str, Any]]) -> bool:
    """Also that what runs has a box, though the control plane may not have missed it yet.

    A box whose reclaim is announced and still to come is trouble, too.
    """
    staying = {i["id"] for i in standing if i["box_is_alive"] and not i["is_leaving"]}
    return all(
        view["state"] in AT_REST
        and view["operation"] is None
        and (view["state"] != "running" or view["machine"]["provider_id"] in staying)
        for view in views
    )


class UnsettledError(Exception):
    """Something is still under way when everything should be at rest."""


class Driver:
    """One run on a stack that other runs have used and will use."""

    def __init__(self, deployment: Deployment, stack: ChaosStack, plan: Plan) -> None:
        self._deployment = deployment
        self._stack = stack
        self._plan = plan
        self._began = time.monotonic()
        self._dice = random.Random(plan.seed)
        self.log: list[str] = []
        self.settled_at: datetime | None = None
        """From then on nothing goes wrong that is not wrong."""
        self.account = Account(stack, plan.seed)

    def run(self) -> None:
        """Do what the plan says; what is refused or cannot be done is only noted."""
        for provider in self._providers:
            body = {"micros": BALANCE_MICROS}
            self._deployment.control(provider, "POST", "/balance", json=body)
        for name, link in self._stack.links.items():
            link.clear(self._plan.seed)
            self.note(f"link {name} at {link.url}")
        for step in self._plan.steps:
            time.sleep(step.pause)
            self.note(str(step))
            self._do(step)

    def settle(self) -> None:
        """End all troubles and wait until every pod is at rest.

        Raises:
            UnsettledError: one is not, after a time in which it should be.
        """
        self.note("settling")
        for link in self._stack.links.values():
            link.clear(self._plan.seed)
        self._deployment.clear_faults()
        self.account.end_writers()
        self._until("pods at rest", self._are_at_rest)
        self.settled_at = self._stack.clock.now()

    def look(self) -> None:
        """See what is in every pod; those that are stopped are started for it.

        Raises:
            UnsettledError: a pod does not start, or does not show its files.
        """
        self.note("looking")
        self._until("pods running", lambda: self._are_all("running", "start"))
        for pod in self.account.pods:
            self._until(f"a look into {pod.id}", lambda pod=pod: self._has_shown(pod))

    def leave(self) -> None:
        """Stop every pod; nothing may be lost on the way.

        Raises:
            UnsettledError: a pod does not stop, a machine stands afterwards, or its meter runs on.
        """
        self.note("leaving")
        self._until("pods stopped", lambda: self._are_all("stopped", "stop"))
        self._until("machines gone", lambda: not self.standing())
        self._until("rest: everything is metered to its end", self._is_schedule_off)
        for pod in self.account.pods:
            self._note_operations(pod)

    def standing(self) -> list[dict[str, Any]]:
        """Every instance of any provider that has not ended."""
        return [
            {"provider": provider, **instance}
            for provider in self._providers
            for instance in self._deployment.control(provider, "GET", "/state")["instances"]
            if instance["phase"] not in _GONE
        ]

    def note(self, line: str) -> None:
        moment = self._stack.clock.now().strftime("%H:%M:%S.%f")[:-3]
        self.log.append(f"{time.monotonic() - self._began:7.2f} {moment} {line}")

    @property
    def _providers(self) -> list[str]:
        return sorted(self._stack.providers)

    # Actions

    def _do(self, step: Step) -> None:
        assert step.action in ACTIONS
        action: Callable[..., None] = getattr(self, f"_do_{step.action}")
        try:
            action(step, **step.arguments)
        except (httpx.TransportError, AssertionError) as refusal:
            # The machine that was meant is gone, or its simulator is not up yet.
            self.note(f"  came to nothing: {str(refusal)[:200]}")

    def _do_create(self, _: Step, provider: str, on_reclaim: str) -> None:
        self.account.create(provider, on_reclaim)

    def _do_await_running(self, step: Step) -> None:
        """It is not chaos yet if that takes too long: the plan goes on."""
        pod = self._pod(step)
        deadline = time.monotonic() + AWAIT_SECONDS
        while pod is not None and time.monotonic() < deadline:
            view = self.account.view(pod)
            if view is not None and view["state"] == "running":
                return
            time.sleep(0.3)

    def _do_start(self, step: Step, provider: str) -> None:
        self._ask(step, "start", {"requirements": {"providers": [provider]}})

    def _do_stop(self, step: Step, *, accept_loss: bool) -> None:
        self._ask(step, "stop", {"accept_loss": accept_loss})

    def _do_move(self, step: Step, provider: str) -> None:
        self._ask(step, "move", {"requirements": {"providers": [provider]}})

    def _do_save(self, step: Step) -> None:
        self._ask(step, "save", {})

    def _do_cancel(self, step: Step) -> None:
        pod = self._pod(step)
        view = None if pod is None else self.account.view(pod)
        operation = view and view["operation"]
        if operation:
            answer = self.account.ask("POST", f"/v1/operations/{operation['id']}/cancel", {})
            self.note(f"  {operation['kind']} {operation['id']}: {answer and answer['state']}")

    def _do_kill_agent(self, step: Step) -> None:
        for provider, instance in self._instance(step):
            pids = self._deployment.in_box(provider, instance, _AGENTS).split()
            # The first process is the supervisor: without it there is no box.
            words = " ".join(pid for pid in pids if pid != "1")
            self._deployment.in_box(provider, instance, f"kill -9 {words} 2>/dev/null; true")

    def _do_crash(self, step: Step) -> None:
        for provider, instance in self._instance(step):
            self._deployment.control(provider, "POST", f"/instances/{instance}/crash", json={})

    def _do_resume(self, step: Step) -> None:
        for provider, instance in self._instance(step):
            self._deployment.control(provider, "POST", f"/instances/{instance}/resume", json={})

    def _do_reclaim(self, step: Step, **notice: Any) -> None:
        for provider, instance in self._instance(step):
            path = f"/instances/{instance}/reclaim"
            self._deployment.control(provider, "POST", path, json=notice)

    def _do_kill_control_plane(self, _: Step) -> None:
        self._deployment.kill_control_plane()
        self._stack.start_aws()

    def _do_kill_function(self, _: Step, name: str, times: int) -> None:
        killed = 0
        for _ in range(times):
            killed += self._stack.kill_function(name)
            time.sleep(0.2)
        self.note(f"  {killed} processes")

    def _do_restart_provider(self, _: Step, provider: str) -> None:
        self._stack.restart_provider(provider)

    def _do_trouble(
        self, _: Step, *, link: str, mischief: str, seconds: float, share: float, delay: float
    ) -> None:
        self._stack.links[link].trouble(Mischief(mischief), seconds, share, delay)

    def _do_lie(self, _: Step, provider: str, switch: str, value: Any) -> None:
        self._deployment.set_fault(provider, **{switch: value})

    def _do_skip(self, _: Step, seconds: int) -> None:
        self._stack.let_pass(seconds)

    def _pod(self, step: Step) -> PodUnderTest | None:
        pods = self.account.pods
        return pods[step.which % len(pods)] if pods else None

    def _ask(self, step: Step, verb: str, body: dict[str, Any]) -> None:
        pod = self._pod(step)
        if pod is None:
            return
        answer = self.account.ask("POST", f"/v1/pods/{pod.id}/{verb}", body)
        self.note(f"  {'refused' if answer is None else answer['id']}")

    def _instance(self, step: Step) -> list[tuple[str, str]]:
        """Provider and id of one that stands; nothing if none does."""
        standing = self.standing()
        if not standing:
            return []
        chosen = standing[step.which % len(standing)]
        self.note(f"  {chosen['provider']} {chosen['id']} {chosen['phase']}")
        return [(chosen["provider"], chosen["id"])]

    def _note_operations(self, pod: PodUnderTest) -> None:
        answer = self.account.ask("GET", f"/v1/pods/{pod.id}/operations") or {"data": []}
        for operation in answer["data"]:
            marks = (f"{m['phase']} {m['at'][11:19]}" for m in operation["milestones"])
            told = f"{operation['kind']} {operation['state']} {operation['error'] or ''}"
            self.note(f"  {operation['id']} {told}: {', '.join(marks)}")

    # Settling

    def _until(self, what: str, is_reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        latest = self._stack.clock.now() + SETTLE_TIME
        looks = 0
        while not is_reached():
            if time.monotonic() > deadline or self._stack.clock.now() > latest:
                views = [self.account.view(pod) for pod in self.account.pods]
                shown = json.dumps({"pods": views, "standing": self.standing()}, default=str)
                raise UnsettledError(f"no {what} in {SETTLE_TIME} of its clock: {shown}")
            time.sleep(SETTLE_LOOK_SECONDS)
            looks += 1
            if looks >= self._patience():
                self._stack.let_pass(SETTLE_SKIP_SECONDS)
                looks = 0

    def _patience(self) -> int:
        """How often to look before time is skipped: what is at work is only slowed down by that."""
        views = [self._view(pod) for pod in self.account.pods]
        is_at_work = any(view["operation"] is not None for view in views)
        return LOOKS_AT_WORK if is_at_work else LOOKS_AT_REST

    def _are_at_rest(self) -> bool:
        return are_at_rest([self._view(pod) for pod in self.account.pods], self.standing())

    def _is_schedule_off(self) -> bool:
        rule = self._stack.outputs[CONTROL_STACK]["ReconcilerRuleName"]
        state = self._deployment.aws("events").describe_rule(Name=rule)["State"]
        return bool(state == "DISABLED")

    def _are_all(self, state: str, verb: str) -> bool:
        """Whether all pods are there; those that rest elsewhere are asked to go there."""
        states = [self._is(pod, state, verb) for pod in self.account.pods]
        return all(states)

    def _is(self, pod: PodUnderTest, state: str, verb: str) -> bool:
        view = self._view(pod)
        if view["state"] == state and view["operation"] is None:
            return True
        if view["state"] in AT_REST and view["operation"] is None:
            answer = self.account.ask("POST", f"/v1/pods/{pod.id}/{verb}", {})
            self.note(f"  {verb} {pod.id}: {answer and answer['id']}")
        return False

    def _view(self, pod: PodUnderTest) -> dict[str, Any]:
        view = self.account.view(pod)
        if view is None:
            raise UnsettledError(f"the API does not show pod {pod.id}")
        return view

    def _has_shown(self, pod: PodUnderTest) -> bool:
        try:
            self.account.look(pod, LOOK_SECONDS)
        except (UnansweredError, ApiError) as error:
            self.note(f"  {error}")
            return False
        return True
