"""What a run of chaos does: a pure function of its seed and of what the simulators can be told.

A plan names no pods and no machines, which come into being only while it is carried out: a step
says "the second of those that there are", and what that is depends on the run.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from infra.catalog import FUNCTIONS
from local.providers.faults import KINDS
from tests.chaos.proxy import Mischief

Switches = Mapping[str, Sequence[str]]
"""The switches of each simulated provider, as it lists them itself."""

STEPS = 10
UNDISTURBED_LAUNCHES = 0.7
"""The share of the runs in which the first pod runs before anything happens to it."""
LONGEST_PAUSE_SECONDS = 1.5
LONGEST_TROUBLE_SECONDS = 6.0
LONGEST_SKIP_SECONDS = 50
NOTICE_SECONDS = (2, 5, 15)
_VALUES: tuple[Any, ...] = (
    1,
    2,
    True,
    {"seconds": 3},
    {"seconds": 6},
    "pulling",
    "TERMINATED",
    0.5,
    3.5,
    20,
    {"create": 2, "list": 1},
)
"""Each switch takes some of these; which ones, it says itself."""


@dataclass(frozen=True, slots=True)
class Step:
    """One action, after a pause."""

    pause: float
    action: str
    which: int
    """Picks among the pods that there are."""
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = (f"{name}={value}" for name, value in self.arguments.items())
        return " ".join((self.action, f"#{self.which}", *words))


@dataclass(frozen=True, slots=True)
class Plan:
    """A seed and what comes of it."""

    seed: int
    steps: tuple[Step, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Plan":
        return cls(values["seed"], tuple(Step(**step) for step in values["steps"]))


def make_plan(seed: int, switches: Switches, steps: int = STEPS) -> Plan:
    """The plan of a seed: always the same for the same switches."""
    dice = random.Random(seed)
    maker = _Maker(dice, switches)
    first = [Step(0.0, "create", 0, maker.create())]
    if dice.random() < UNDISTURBED_LAUNCHES:
        first.append(Step(0.0, "await_running", 0))
    return Plan(seed, (*first, *(maker.step() for _ in range(steps))))


class _Maker:
    """Throws the dice for one step after the other."""

    def __init__(self, dice: random.Random, switches: Switches) -> None:
        self._dice = dice
        self._switches = switches
        self._providers = sorted(switches)

    def step(self) -> Step:
        pause = round(self._dice.uniform(0.0, LONGEST_PAUSE_SECONDS), 2)
        actions = list(_WEIGHTS)
        (action,) = self._dice.choices(actions, [_WEIGHTS[name][0] for name in actions])
        return Step(pause, action, self._dice.randrange(4), _WEIGHTS[action][1](self))

    def nothing(self) -> dict[str, Any]:
        return {}

    def create(self) -> dict[str, Any]:
        restarts = self._dice.random() < 0.8
        return {"provider": self._provider(), "on_reclaim": "restart" if restarts else "stop"}

    def target(self) -> dict[str, Any]:
        return {"provider": self._provider()}

    def stop(self) -> dict[str, Any]:
        return {"accept_loss": self._dice.random() < 0.2}

    def reclaim(self) -> dict[str, Any]:
        if self._dice.random() < 0.5:
            return {"notice": "none"}
        return {"notice": "sigterm", "seconds": self._dice.choice(NOTICE_SECONDS)}

    def function(self) -> dict[str, Any]:
        times = self._dice.randint(1, 3)
        return {"name": self._dice.choice([spec.name for spec in FUNCTIONS]), "times": times}

    def skip(self) -> dict[str, Any]:
        return {"seconds": self._dice.randint(5, LONGEST_SKIP_SECONDS)}

    def trouble(self) -> dict[str, Any]:
        return {
            "link": self._dice.choice(["agent", "agent", "store", "user", *self._providers]),
            "mischief": self._dice.choice(list(Mischief)).value,
            "seconds": round(self._dice.uniform(1.0, LONGEST_TROUBLE_SECONDS), 1),
            "share": self._dice.choice([0.2, 0.5, 1.0]),
            "delay": round(self._dice.uniform(0.1, 2.0), 1),
        }

    def lie(self) -> dict[str, Any]:
        provider = self._provider()
        switch = self._dice.choice(sorted(self._switches[provider]))
        values = [value for value in _VALUES if KINDS[switch].accepts(value)]
        return {"provider": provider, "switch": switch, "value": self._dice.choice(values)}

    def _provider(self) -> str:
        return self._dice.choice(self._providers)


_WEIGHTS: Mapping[str, tuple[int, Callable[[_Maker], dict[str, Any]]]] = {
    "create": (2, _Maker.create),
    "start": (6, _Maker.target),
    "stop": (7, _Maker.stop),
    "move": (5, _Maker.target),
    "save": (6, _Maker.nothing),
    "cancel": (4, _Maker.nothing),
    "kill_agent": (5, _Maker.nothing),
    "crash": (3, _Maker.nothing),
    "resume": (2, _Maker.nothing),
    "reclaim": (5, _Maker.reclaim),
    "kill_control_plane": (2, _Maker.nothing),
    "kill_function": (7, _Maker.function),
    "restart_provider": (2, _Maker.target),
    "trouble": (14, _Maker.trouble),
    "lie": (12, _Maker.lie),
    "skip": (8, _Maker.skip),
}
ACTIONS = frozenset({"await_running", *_WEIGHTS})
