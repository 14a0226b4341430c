"""What the rules of the model share: the world, its user, and how to pick things in it."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from crashing_store import Crash
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize
from witness import WatchedBox, WatchedWorld

from podferry.domain.command import CommandKind
from podferry.domain.errors import PodferryError
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod, PodState
from podferry.domain.reply import Reply as KeptReply
from podferry.domain.snapshot import SnapshotKind
from tests.unit.http.deployment import Deployment, Reply, User

T = TypeVar("T")
PICK = st.integers(0, 17)
SPEC = {"image": "debian:12", "capacity_wait_seconds": 600}


@dataclass(frozen=True)
class Request:
    """A request that can be sent again as it is."""

    method: str
    path: str
    body: str | None
    key: str
    """The Idempotency-Key."""

    @property
    def accepts_loss(self) -> bool:
        return self.body is not None and bool(json.loads(self.body).get("accept_loss"))


Act = tuple[str, dict[str, Any]]
"""The name of a method of the scene, and what it is called with."""


def act(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Act]:
    """Something that may happen."""
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


class Scene(RuleBasedStateMachine):
    """One world, and a user who speaks HTTP."""

    @initialize(
        begins=st.sampled_from(["asked", "running", "worked", "stopped"]), has_timer=st.booleans()
    )
    def begin(self, begins: str, has_timer: bool) -> None:
        """A history begins at one of four points, so that short ones are deep as well."""
        self.world = WatchedWorld()
        world = self.world
        self.user = User(Deployment(world), world.account, world.key, world.token)
        self.has_timer = has_timer
        self.answered: dict[Request, Reply | None] = {}
        self.made: dict[Request, int] = {}
        """How many operations each has begun."""
        self.effective: set[Request] = set()
        """Those that changed anything; the key of another one stays free."""
        self._files = self._requests = 0
        self.ask("POST", "/v1/pods", {"name": "pod", "spec": SPEC})
        if begins == "asked":
            return
        self.go(60)
        if begins in {"worked", "stopped"}:
            self.write_a_file(0, SnapshotKind.VOLUME)
            self.write_a_file(0, SnapshotKind.ENVIRONMENT)
            self.go(330)
        if begins == "stopped":
            self.ask("POST", f"/v1/pods/{self.pods()[0].id}/stop", {})
            self.go(60)

    # Picking

    def pods(self) -> list[Pod]:
        return [pod for pod in self.world.of(Pod) if pod.state != PodState.DELETED]

    def boxes(self) -> list[WatchedBox]:
        """Those that stand."""
        return [box for box in self.world.every_box() if not box.is_gone]

    def picked(self, among: Sequence[T], pick: int) -> T | None:
        """The newest for 0, then back in time."""
        return among[-1 - pick % len(among)] if among else None

    # Doing

    def perform(self, what: Act) -> None:
        name, arguments = what
        getattr(self, name)(**arguments)

    def trouble(self) -> None:
        self.world.troubled_at = self.world.seconds

    def go(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Everybody does their work for so long."""
        for box in self.boxes():
            box.has_timer = self.has_timer
        self.world.proceed(seconds, until)

    def attempt(self, do: Callable[[], object]) -> None:
        """Somebody does something, and may die at it or be refused."""
        with suppress(Crash, PodferryError):
            do()

    def write_a_file(self, pick: int, kind: SnapshotKind) -> None:
        box = self.picked([b for b in self.boxes() if self.world.is_running_on(b)], pick)
        if box is not None:
            self._files += 1
            box.write(
                kind,
                f"/opt/{self._files}" if kind == SnapshotKind.ENVIRONMENT else f"{self._files}",
            )

    def ask(self, method: str, path: str, body: Any = None) -> Reply | None:
        """A request of its user; without an answer if its function died."""
        text = None if body is None else json.dumps(body)
        self._requests += 1
        return self.send(Request(method, path, text, f"key {self._requests}"))

    def send(self, request: Request) -> Reply | None:
        headers = {"Idempotency-Key": request.key}
        before = {op.id for op in self.world.of(Operation)}
        replies = len(list(self.world.of(KeptReply)))
        is_alone = not self.world.meanwhile
        reply = None
        with suppress(Crash):
            reply = self.user.deployment.call(
                request.method, request.path, request.body, token=self.user.token, headers=headers
            )
        new = [op for op in self.world.of(Operation) if op.id not in before]
        if request.accepts_loss:
            self.world.accepted |= {op.id for op in new if op.accept_loss}
        if is_alone:
            self.made[request] = self.made.get(request, 0) + len(new)
            if len(list(self.world.of(KeptReply))) > replies:
                self.effective.add(request)
                self.answered[request] = reply
        self.answered.setdefault(request, reply)
        return reply

    def heal(self) -> None:
        """All faults end."""
        world = self.world
        world.store.crash_at = None
        world.meanwhile.clear()
        world.repeats = False
        world.before_step = world.after_step = lambda *_: None
        for (kind, key), body in world.hidden.items():
            world.objects.put(kind, key, body)
        world.hidden.clear()
        for name in world.clouds.names():
            world.clouds.get(name).__dict__.update(NO_FAULTS, create_raises=[], words={})
        for box in world.every_box():
            box.is_dead = box.is_gone or box.was_told_to_end or box.is_twin
            box.hangs.clear()
            box.fails.clear()
            box.holds_saves, box.hand_in_goes = False, "through"
            box.next_beat = min(box.next_beat, world.seconds + 10)
        self._take_away_what_is_gone()

    def _take_away_what_is_gone(self) -> None:
        """A machine that is gone is said to be gone, whatever its provider said before."""
        for box in self.world.every_box():
            if box.is_gone:
                box.cloud.words.pop(box.provider_id, None)


NO_FAULTS: dict[str, Any] = {
    "create_fails_but_exists": 0,
    "create_fails_and_nothing_exists": 0,
    "delete_fails": 0,
    "delete_says_ok_but_stands": 0,
    "boot_never": 0,
    "listing_fails": 0,
    "is_down": False,
    "has_stock": True,
    "listing_lag_seconds": 0,
    "twins": 0,
}
KINDS = [
    CommandKind.QUIESCE,
    CommandKind.RESUME,
    CommandKind.CAPTURE,
    CommandKind.RESTORE,
    CommandKind.RUN,
]
