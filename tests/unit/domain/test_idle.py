"""The rule by which an unused pod is warned of and stopped, over whole histories of signals."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podferry.domain.activity import Activity, IdlePolicy, Reading, Signal, SignalState
from podferry.domain.idle import (
    LONGEST_GAP,
    PERIOD,
    UNEVALUATED_AFTER,
    WARM_UP,
    Evidence,
    IdleState,
    IdleWatch,
    Step,
    Verdict,
    advanced,
    begun,
    due,
    evaluate,
    idle_state,
    is_unevaluated,
    stops_at,
)
from podferry.domain.state_word import SILENCE

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
POLICY = IdlePolicy(warn_after_minutes=5, stop_after_minutes=12)
ACTIVE, QUIET, UNKNOWN = SignalState.ACTIVE, SignalState.QUIET, SignalState.UNKNOWN


def said(
    states: dict[Signal, SignalState] | None = None,
    *,
    seconds: float = 3600.0,
    idle_seconds: float | None = 3600.0,
    counted: tuple[Signal, ...] = POLICY.signals,
) -> Activity:
    """What an agent says whose signals are quiet, but for those that are named."""
    known = {**dict.fromkeys(Signal, QUIET), **(states or {})}
    return Activity(
        counted=counted,
        idle_seconds=idle_seconds,
        readings=tuple(
            Reading(signal=s, state=state, for_seconds=seconds) for s, state in known.items()
        ),
    )


def evidence(activity: Activity | None = None, **changes: object) -> Evidence:
    sound = Evidence(
        ready_at=NOW - timedelta(days=1),
        is_busy=False,
        heard_at=NOW,
        activity=said() if activity is None else activity,
        has_hidden_gpu=False,
    )
    return replace(sound, **changes)  # type: ignore[arg-type]


def a_watch(policy: IdlePolicy = POLICY, at: datetime = NOW) -> IdleWatch:
    return IdleWatch(
        id="mach_1", account_id="acct_1", created_at=at, policy=policy, begun_at=at, looked_at=at
    )


def verdict(seen: Evidence, policy: IdlePolicy = POLICY) -> Verdict:
    return evaluate(policy, seen, NOW).verdict


def test_pod_of_which_nothing_is_used_is_idle() -> None:
    seen = evaluate(POLICY, evidence(), NOW)
    assert (seen.verdict, seen.since) == (Verdict.IDLE, NOW - timedelta(hours=1))


@pytest.mark.parametrize("signal", list(Signal))
def test_one_counted_signal_that_is_active_is_enough_for_a_pod_in_use(signal: Signal) -> None:
    assert verdict(evidence(said({signal: ACTIVE}))) == Verdict.ACTIVE


@pytest.mark.parametrize("signal", list(Signal))
def test_one_counted_signal_that_is_unknown_is_not_idle(signal: Signal) -> None:
    seen = evaluate(POLICY, evidence(said({signal: UNKNOWN})), NOW)
    assert (seen.verdict, seen.doubt) == (Verdict.UNKNOWN, f"not known: {signal}")


def test_signal_that_the_agent_says_nothing_of_is_unknown() -> None:
    activity = replace(said(), readings=said().readings[1:])
    assert verdict(evidence(activity)) == Verdict.UNKNOWN


@pytest.mark.parametrize("state", [ACTIVE, UNKNOWN])
def test_signals_that_do_not_count_do_not_matter(state: SignalState) -> None:
    policy = replace(POLICY, signals=(Signal.GPU,))
    activity = said({Signal.CPU: state}, counted=policy.signals)
    assert verdict(evidence(activity), policy) == Verdict.IDLE


def test_case_b2_an_agent_that_does_not_agree_is_enough_for_a_pod_in_use() -> None:
    assert verdict(evidence(said(idle_seconds=None))) == Verdict.ACTIVE


def test_idle_time_is_the_shorter_of_what_signals_and_verdict_say() -> None:
    for activity in (said(seconds=60.0), said(idle_seconds=60.0)):
        assert evaluate(POLICY, evidence(activity), NOW).since == NOW - MINUTE


def test_idle_time_begins_when_the_pod_was_handed_over_at_the_earliest() -> None:
    for seconds in (3600.0, 1e300):
        activity = said(seconds=seconds, idle_seconds=seconds)
        seen = evaluate(POLICY, evidence(activity, ready_at=NOW - MINUTE), NOW)
        assert seen.since == NOW - MINUTE


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"heard_at": NOW - SILENCE - MINUTE}, "the agent is silent"),
        ({"activity": said(counted=(Signal.CPU,))}, "the agent has not said"),
        ({"has_hidden_gpu": True}, "not known: gpu"),
    ],
)
def test_what_is_not_known_is_not_idle(changes: dict[str, object], doubt: str) -> None:
    seen = evaluate(POLICY, evidence(**changes), NOW)  # type: ignore[arg-type]
    assert seen.verdict == Verdict.UNKNOWN
    assert doubt in (seen.doubt or "")


def test_agent_that_never_spoke_of_it_is_not_idle() -> None:
    assert verdict(replace(evidence(), activity=None)) == Verdict.UNKNOWN


def test_pod_with_an_operation_at_work_is_in_use_whatever_its_agent_says() -> None:
    assert verdict(evidence(is_busy=True)) == Verdict.ACTIVE


@dataclass(frozen=True)
class Look:
    """One evaluation: how long after the one before, and what there was to see."""

    after: timedelta
    states: dict[Signal, SignalState]
    is_busy: bool
    is_silent: bool
    agrees: bool

    @property
    def is_idle(self) -> bool:
        quiet = all(self.states[signal] == QUIET for signal in POLICY.signals)
        return quiet and self.agrees and not self.is_busy and not self.is_silent


QUIET_LOOK = Look(PERIOD, dict.fromkeys(Signal, QUIET), False, False, True)


def _mostly(usual: object, *others: object) -> st.SearchStrategy[object]:
    return st.sampled_from([usual] * 40 + list(others))


LOOKS = st.builds(
    Look,
    after=_mostly(PERIOD, PERIOD / 2, 2 * PERIOD, LONGEST_GAP, 2 * LONGEST_GAP),
    states=st.fixed_dictionaries({s: _mostly(QUIET, ACTIVE, UNKNOWN) for s in Signal}),
    is_busy=_mostly(False, True),
    is_silent=_mostly(False, True),
    agrees=_mostly(True, False),
)
QUIET_TIMES = st.integers(1, 16).map(lambda minutes: [QUIET_LOOK] * minutes)
HISTORIES = st.lists(LOOKS.map(lambda look: [look]) | QUIET_TIMES, min_size=1, max_size=20).map(
    lambda parts: [look for part in parts for look in part]
)


@dataclass
class Course:
    """A history as the rule took it: each look with its time and what was due then."""

    looks: list[tuple[datetime, Look, Step]]
    watch: IdleWatch

    def times(self, step: Step) -> list[datetime]:
        return [at for at, _, taken in self.looks if taken == step]


def played(history: list[Look], policy: IdlePolicy = POLICY) -> Course:
    """Agents count their spans from the moment when they became quiet."""
    course, now, quiet_since = Course([], a_watch(policy)), NOW, NOW
    for look in history:
        now += look.after
        if not look.is_idle:
            quiet_since = now
        span = (now - quiet_since).total_seconds()
        activity = said(
            look.states,
            seconds=span,
            idle_seconds=span if look.agrees else None,
            counted=policy.signals,
        )
        heard_at = now - 2 * SILENCE if look.is_silent else now
        seen = replace(evidence(activity), heard_at=heard_at, is_busy=look.is_busy)
        watch = advanced(course.watch, evaluate(policy, seen, now), now)
        step = due(watch, now)
        if step == Step.WARN:
            watch = replace(watch, warned_at=now)
        if step == Step.STOP:
            watch = begun(watch, policy, now)
        course.watch = watch
        course.looks.append((now, look, step))
    return course


@settings(max_examples=100, deadline=None)
@given(HISTORIES)
def test_pod_is_never_stopped_if_a_counted_signal_was_active_or_unknown_within_its_time(
    history: list[Look],
) -> None:
    course = played(history)
    for stopped_at in course.times(Step.STOP):
        begun_at = stopped_at - POLICY.stop_after
        assert all(look.is_idle for at, look, _ in course.looks if begun_at <= at <= stopped_at)


@settings(max_examples=100, deadline=None)
@given(HISTORIES)
def test_case_b2_a_time_in_which_nobody_looked_is_no_idle_time(history: list[Look]) -> None:
    course = played(history)
    for stopped_at in course.times(Step.STOP):
        begun_at = stopped_at - POLICY.stop_after
        assert all(
            look.after <= LONGEST_GAP
            for at, look, _ in course.looks
            if begun_at + look.after < at <= stopped_at
        )


@settings(max_examples=100, deadline=None)
@given(HISTORIES)
def test_case_r9_each_stop_has_a_warning_of_its_own_and_time_between(history: list[Look]) -> None:
    course = played(history)
    warned_at = None
    for at, look, step in course.looks:
        if not look.is_idle:
            warned_at = None
        if step == Step.WARN:
            warned_at = at
        if step == Step.STOP:
            assert warned_at is not None
            assert at - warned_at >= POLICY.gap
            warned_at = None


@settings(max_examples=30, deadline=None)
@given(st.integers(5, 60), st.integers(5, 60))
def test_unused_pod_is_warned_of_and_stopped_within_a_minute_of_the_time(
    warn_after: int, gap: int
) -> None:
    policy = IdlePolicy(warn_after_minutes=warn_after, stop_after_minutes=warn_after + gap)
    course = played([QUIET_LOOK] * (warn_after + gap + 1), policy)
    first = NOW + PERIOD
    assert course.times(Step.WARN) == [first + policy.warn_after]
    assert course.times(Step.STOP) == [first + policy.stop_after]


def test_case_r9_a_warning_that_comes_late_moves_the_stop() -> None:
    late = NOW + timedelta(hours=2)
    watch = replace(a_watch(), idle_since=NOW, looked_at=late)
    assert stops_at(watch) == NOW + POLICY.stop_after
    warned = replace(watch, warned_at=late)
    assert stops_at(warned) == late + POLICY.gap
    assert due(warned, late + POLICY.gap - timedelta(seconds=1)) == Step.NOTHING
    assert due(warned, late + POLICY.gap) == Step.STOP


def test_case_r9_a_policy_without_a_gap_has_one_all_the_same() -> None:
    at_once = IdlePolicy(warn_after_minutes=5, stop_after_minutes=5)
    assert at_once.gap == 5 * MINUTE


def test_activity_between_two_looks_calls_the_warning_off() -> None:
    watch = replace(a_watch(), idle_since=NOW - 8 * MINUTE, warned_at=NOW - 3 * MINUTE)
    seen = evaluate(POLICY, evidence(said(seconds=20.0, idle_seconds=20.0)), NOW)
    after = advanced(watch, seen, NOW)
    assert (after.idle_since, after.warned_at) == (NOW - timedelta(seconds=20), None)


def test_case_b2_a_policy_is_unevaluated_after_two_periods_without_a_verdict() -> None:
    watch = replace(a_watch(), evaluated_at=NOW)
    assert not is_unevaluated(watch, NOW + 2 * PERIOD)
    assert is_unevaluated(watch, NOW + 3 * PERIOD)
    doubtful = advanced(watch, evaluate(POLICY, evidence(said({Signal.GPU: UNKNOWN})), NOW), NOW)
    assert doubtful.evaluated_at == NOW
    assert is_unevaluated(doubtful, NOW + 3 * PERIOD)


def test_agent_that_has_just_begun_to_measure_is_given_time() -> None:
    assert not is_unevaluated(a_watch(), NOW + WARM_UP + 2 * PERIOD)
    assert is_unevaluated(a_watch(), NOW + WARM_UP + UNEVALUATED_AFTER + MINUTE)


def test_word_follows_what_was_seen_last() -> None:
    fresh = a_watch()
    active = replace(fresh, evaluated_at=NOW)
    idle = replace(active, idle_since=NOW)
    words = [
        idle_state(watch, NOW) for watch in (None, fresh, replace(active, doubt="x"), active, idle)
    ]
    unknown = IdleState.UNKNOWN
    assert words == [unknown, unknown, unknown, IdleState.ACTIVE, IdleState.IDLE]
    assert idle_state(replace(idle, warned_at=NOW), NOW) == IdleState.WARNED
    assert idle_state(idle, NOW + LONGEST_GAP + MINUTE) == unknown
