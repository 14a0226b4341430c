"""What providers, functions and time do to it."""

from datetime import timedelta

from asl import KilledError
from hypothesis import strategies as st
from scene import PICK, Scene, act
from scenes import LAUNCH, MOVE, STOP

from podferry.domain.errors import (
    NoCapacityError,
    OfferGoneError,
    ProviderBusyError,
    ProviderRefusedError,
)
from podferry.domain.operation import Cause
from podferry.domain.snapshot import SnapshotKind
from podferry.ports.gpu_cloud import ViewState

CLOUD = st.sampled_from(["alpha", "beta"])
COUNTED = [
    "create_fails_but_exists",
    "create_fails_and_nothing_exists",
    "delete_fails",
    "delete_says_ok_but_stands",
    "boot_never",
    "listing_fails",
    "twins",
]
WORDS = [
    (ViewState.GONE, "terminated"),
    (ViewState.GONE, "not_found"),
    (ViewState.STOPPED, "stopped"),
    (ViewState.RECLAIMED, "outbid"),
    (ViewState.FAILED, "failed"),
    (ViewState.LOST, "host lost"),
    (ViewState.UNKNOWN, "?"),
]
BETWEEN = ["cancel", "stop", "reconcile", "sweep", "autosave", "beat", "late", "gone", "kill"]
REFUSALS = [
    NoCapacityError("none left"),
    OfferGoneError("somebody was faster"),
    ProviderRefusedError("not with this key"),
    ProviderBusyError("429"),
]
STEPS = sorted({*LAUNCH, *STOP, *MOVE, "AssessStop", "ResumeMachine", "FailStop", "ReturnMachine"})


AGAIN = st.just("again")
GONE_WRONG = act(
    "a_call_goes_wrong", cloud=CLOUD, fault=st.sampled_from(COUNTED), times=st.integers(1, 3)
)
LOSSES = st.one_of(
    act("a_create_is_refused", cloud=CLOUD, error=st.sampled_from(REFUSALS)),
    act("it_is_sold_out_or_not", cloud=CLOUD),
    act("it_takes_a_machine_away", pick=PICK, word=st.sampled_from(WORDS[:2])),
)
"""What providers do and may do."""
LIES = st.one_of(
    GONE_WRONG,
    GONE_WRONG,
    GONE_WRONG,
    act("it_is_down_or_up_again", cloud=CLOUD),
    act("its_listings_lag", cloud=CLOUD, seconds=st.sampled_from([0, 5, 15])),
    act("it_lies_about_a_machine", pick=PICK, word=st.sampled_from(WORDS[:2])),
    act("it_lies_about_a_machine", pick=PICK, word=st.sampled_from(WORDS[2:])),
    act("it_finds_a_machine_again", pick=PICK),
    act("the_store_does_not_show_an_object", pick=PICK, kind=st.sampled_from(SnapshotKind)),
)
CRASHES = st.one_of(
    act("a_function_will_die", commits=st.integers(1, 12), after=st.booleans()),
    act("the_next_step_runs_twice"),
    act(
        "executions_will_die",
        side=st.sampled_from(["before_step", "after_step"]),
        steps=st.integers(0, 5),
    ),
    act("all_executions_die"),
    act(
        "somebody_will_come_between",
        commits=st.integers(0, 8),
        what=st.sampled_from(BETWEEN),
        pick=PICK,
    ),
    act("somebody_will_come_between", commits=st.integers(0, 3), what=AGAIN, pick=PICK),
    act("a_step_runs_late", pick=st.integers(0, 30)),
)
TIME = st.one_of(
    act("time_goes_by", seconds=st.sampled_from([2, 10, 40, 100, 400, 800])),
    act("it_goes_on_until", step=st.sampled_from(STEPS)),
    act("one_execution_goes_on", pick=PICK, turns=st.integers(1, 3)),
    act("nothing_happens_for", seconds=st.sampled_from([1, 5, 25, 65, 200, 1000])),
    act("a_round", what=st.sampled_from(["reconcile", "autosave", "sweep", "sweep"])),
)


class Providers(Scene):
    """They have nothing, or take machines away, and say so."""

    def a_create_is_refused(self, cloud: str, error) -> None:
        self.world.clouds.get(cloud).create_raises.append(error)

    def it_is_sold_out_or_not(self, cloud: str) -> None:
        there = self.world.clouds.get(cloud)
        there.has_stock = not there.has_stock

    def it_takes_a_machine_away(self, pick: int, word: tuple[ViewState, str]) -> None:
        box = self.picked(self.boxes(), pick)
        if box is not None:
            self.trouble()
            box.is_dead = box.is_gone = True
            box.cloud.words[box.provider_id] = word


class Liars(Scene):
    """Answers that are wrong, late or missing."""

    def a_call_goes_wrong(self, cloud: str, fault: str, times: int) -> None:
        self.trouble()
        setattr(self.world.clouds.get(cloud), fault, times)

    def it_is_down_or_up_again(self, cloud: str) -> None:
        self.trouble()
        there = self.world.clouds.get(cloud)
        there.is_down = not there.is_down

    def its_listings_lag(self, cloud: str, seconds: int) -> None:
        """No longer than it says."""
        self.trouble()
        self.world.clouds.get(cloud).listing_lag_seconds = seconds

    def it_lies_about_a_machine(self, pick: int, word: tuple[ViewState, str]) -> None:
        box = self.picked(self.boxes(), pick)
        if box is not None:
            self.trouble()
            box.cloud.words[box.provider_id] = word

    def it_finds_a_machine_again(self, pick: int) -> None:
        box = self.picked([b for b in self.boxes() if b.provider_id in b.cloud.words], pick)
        if box is not None:
            self.trouble()
            del box.cloud.words[box.provider_id]

    def the_store_does_not_show_an_object(self, pick: int, kind: SnapshotKind) -> None:
        objects = self.world.objects
        key = self.picked(objects.keys(kind), pick)
        if key is not None:
            self.trouble()
            self.world.hidden[kind, key] = objects.read(kind, key)
            objects.remove(kind, key)


class Functions(Providers):
    """Functions die, run twice, at the same time, too late; executions die."""

    def a_function_will_die(self, commits: int, after: bool) -> None:
        self.trouble()
        store = self.world.store
        store.crash_at, store.crash_after_writing = store.commits + commits, after

    def the_next_step_runs_twice(self) -> None:
        self.world.repeats = True
        self.world.after_step = self._once

    def _once(self, *_: str) -> None:
        self.world.repeats = False
        self.world.after_step = lambda *_: None

    def executions_will_die(self, side: str, steps: int) -> None:
        left = [steps]

        def die(*_: str) -> None:
            left[0] -= 1
            if left[0] < 0:
                setattr(self.world, side, lambda *_: None)
                raise KilledError

        self.trouble()
        setattr(self.world, side, die)

    def all_executions_die(self) -> None:
        self.trouble()
        self.world.engine.kill_all()

    def somebody_will_come_between(self, commits: int, what: str, pick: int) -> None:
        """Between the reads and the write of a commit."""
        self.trouble()
        do = {
            "cancel": lambda: self.cancel(pick),
            "stop": lambda: self.stop_for_another_cause(pick, Cause.ADMIN),
            "reconcile": self.world.reconcile,
            "sweep": self.world.sweep,
            "autosave": self.world.autosave,
            "beat": lambda: self.one_beat(pick),
            "late": lambda: self.world.clock.advance(timedelta(seconds=70)),
            "gone": lambda: self.it_takes_a_machine_away(pick, WORDS[0]),
            "kill": self.world.engine.kill_all,
            "again": lambda: self.a_step_runs_late(0),
        }[what]
        self.world.meanwhile.append((commits, lambda: self.attempt(do)))

    def a_step_runs_late(self, pick: int) -> None:
        """A function that outlived its execution."""
        step = self.picked(self.world.steps, pick)
        if step is not None:
            self.world.step_again(*step)


class Time(Scene):
    """Everything at its time, or one thing at a time."""

    def time_goes_by(self, seconds: int) -> None:
        self.go(seconds)

    def it_goes_on_until(self, step: str) -> None:
        """To the state before that step, if it comes within some minutes."""
        self.go(180, until=lambda: step in self.world.next_steps())

    def one_execution_goes_on(self, pick: int, turns: int) -> None:
        for _ in range(turns):
            execution = self.picked(self.world.engine.ready(), pick)
            if execution is not None:
                self.world.engine.advance(execution)

    def nothing_happens_for(self, seconds: int) -> None:
        self.world.clock.advance(timedelta(seconds=seconds))
        self.trouble()

    def a_round(self, what: str) -> None:
        getattr(self.world, what)()

    def faults_end(self) -> None:
        self.heal()
        self.trouble()
