"""The agent's own verdict, by a clock that the tests turn."""

import threading
from typing import Any

import pytest

from podferry_agent.idle.usage import Sample
from podferry_agent.idle.watch import ActivityWatch

SIGNALS = ("gpu", "cpu", "network", "ssh", "processes")
PERIOD = 15.0
MINUTE = 4


class Machine:
    """A box with figures that a test sets, and its watch."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.figures: Sample = dict.fromkeys(SIGNALS, 0.0)
        self.is_working = False
        self.watch = ActivityWatch(
            lambda _elapsed: dict(self.figures),
            lambda: self.is_working,
            threading.Event(),
            300.0,
            lambda: self.now,
        )

    def live(self, samples: int = 1, **figures: float | None) -> None:
        self.figures.update(figures)
        for _ in range(samples):
            self.now += PERIOD
            self.watch.take()

    def report(self) -> dict[str, Any]:
        report = self.watch.report()
        assert report is not None
        return report

    @property
    def idle_seconds(self) -> float | None:
        seconds: float | None = self.report()["idle_seconds"]
        return seconds

    def state(self, signal: str) -> str:
        reading = next(r for r in self.report()["readings"] if r["signal"] == signal)
        return str(reading["state"])


@pytest.fixture
def machine() -> Machine:
    """A box that has been watched and unused for ten minutes."""
    machine = Machine()
    machine.watch.learn(SIGNALS)
    machine.live(10 * MINUTE)
    return machine


def test_nothing_is_measured_until_somebody_asks() -> None:
    machine = Machine()
    machine.live(10)
    assert machine.watch.report() is None
    machine.watch.learn(SIGNALS)
    assert machine.idle_seconds is None
    assert {machine.state(signal) for signal in SIGNALS} == {"unknown"}


def test_idle_time_begins_when_enough_is_known(machine: Machine) -> None:
    assert machine.idle_seconds == 10 * MINUTE * PERIOD - 240.0
    assert machine.report()["counted"] == list(SIGNALS)


@pytest.mark.parametrize(
    ("signal", "level"),
    [
        ("gpu", 50.0),
        ("cpu", 100.0),
        ("network", 1e6),
        ("ssh", 1.0),
        ("processes", 50.0),
    ],
)
def test_use_ends_the_idle_time(machine: Machine, signal: str, level: float) -> None:
    machine.live(3, **{signal: level})
    assert machine.state(signal) == "active"
    assert machine.idle_seconds is None
    machine.live(25, **{signal: 0.0})
    assert machine.idle_seconds is not None
    assert machine.idle_seconds < 25 * PERIOD - 200


@pytest.mark.parametrize("signal", SIGNALS)
def test_what_is_not_measured_ends_the_idle_time(machine: Machine, signal: str) -> None:
    machine.live(5, **{signal: None})
    assert machine.state(signal) == "unknown"
    assert machine.idle_seconds is None


def test_case_a8_one_odd_sample_neither_ends_the_idle_time_nor_begins_one(
    machine: Machine,
) -> None:
    before = machine.idle_seconds or 0.0
    machine.live(1, gpu=100.0, processes=100.0, cpu=150.0)
    machine.live(1, gpu=None, processes=0.0, cpu=0.0)
    assert machine.idle_seconds == before + 2 * PERIOD
    machine.live(20, gpu=80.0)
    machine.live(1, gpu=0.0)
    assert machine.idle_seconds is None


def test_signals_that_do_not_count_are_shown_and_keep_nothing(machine: Machine) -> None:
    machine.watch.learn(("gpu",))
    machine.live(5, ssh=1.0, cpu=None)
    assert machine.state("ssh") == "active"
    assert machine.idle_seconds == 4 * PERIOD


def test_other_signals_begin_the_idle_time_anew(machine: Machine) -> None:
    machine.watch.learn(("gpu", "cpu"))
    assert machine.idle_seconds is None
    machine.live(2)
    assert machine.idle_seconds == PERIOD


def test_a_command_that_somebody_waits_for_is_use(machine: Machine) -> None:
    machine.is_working = True
    assert machine.idle_seconds is None
    machine.is_working = False
    machine.live(2)
    assert machine.idle_seconds == PERIOD


def test_a_box_that_was_suspended_has_not_been_watched(machine: Machine) -> None:
    machine.now += 3600.0
    machine.live(1)
    assert {machine.state(signal) for signal in SIGNALS} == {"unknown"}
    assert machine.idle_seconds is None
    machine.live(17)
    assert machine.idle_seconds is not None
    assert machine.idle_seconds < 17 * PERIOD


def test_a_sampler_that_hangs_is_not_believed(machine: Machine) -> None:
    machine.now += 60.0
    assert machine.idle_seconds is None
    assert machine.state("gpu") == "unknown"


def test_policy_that_is_taken_away_ends_it(machine: Machine) -> None:
    machine.watch.learn(None)
    assert machine.watch.report() is None
    machine.watch.learn(SIGNALS)
    assert machine.idle_seconds is None
    assert machine.state("cpu") == "unknown"
