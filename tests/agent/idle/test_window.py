"""What is made of a signal's last minutes."""

from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from podferry_agent.idle.watch import SAMPLES_PER_WINDOW, THRESHOLDS
from podferry_agent.idle.window import Window

T = TypeVar("T")

SECONDS = 300.0
PERIOD = SECONDS / SAMPLES_PER_WINDOW
THRESHOLD = 10.0

VALUES = st.none() | st.floats(0, 100)
SPANS = st.lists(st.tuples(st.floats(0.1, 60), VALUES), min_size=1, max_size=60)


def filled(*values: float | None, threshold: float = THRESHOLD) -> Window:
    """One sample after the other, all of the same length."""
    window = Window(SECONDS, threshold)
    for number, value in enumerate(values):
        window.add(number * PERIOD, (number + 1) * PERIOD, value)
    return window


def last(seconds: float, spans: list[tuple[float, T]]) -> list[tuple[float, T]]:
    """What of the spans lies within the last seconds, each with how long it does."""
    within, left = [], seconds
    for length, value in reversed(spans):
        within.append((min(length, left), value))
        left -= within[-1][0]
    return within


def test_window_that_is_not_full_is_unknown() -> None:
    assert filled().state == "unknown"
    assert filled(*[0.0] * 15).state == "unknown"
    assert filled(*[0.0] * 16).state == "quiet"


def test_enough_use_is_active_before_the_window_is_full() -> None:
    assert filled(100.0, 100.0).state == "active"


def test_case_a8_one_odd_sample_of_full_use_does_not_end_a_quiet_time() -> None:
    for signal in ("gpu", "processes"):
        window = filled(*[0.0] * 20, 100.0, threshold=THRESHOLDS[signal])
        assert window.state == "quiet"
    assert filled(*[0.0] * 20, 100.0, 100.0, threshold=THRESHOLDS["gpu"]).state == "active"


def test_case_a8_one_odd_sample_of_rest_does_not_begin_a_quiet_time() -> None:
    assert filled(*[50.0] * 20, 0.0).state == "active"


def test_case_a8_one_sample_that_is_missing_changes_nothing() -> None:
    assert filled(*[0.0] * 20, None).state == "quiet"
    assert filled(*[50.0] * 20, None).state == "active"


def test_one_ssh_session_in_the_window_is_somebody() -> None:
    assert filled(*[0.0] * 19, 1.0, threshold=THRESHOLDS["ssh"]).state == "active"


def test_what_is_older_than_the_window_does_not_count() -> None:
    window = filled(*[100.0] * 20, *[0.0] * 20)
    assert (window.state, window.level) == ("quiet", 0.0)


@settings(deadline=None)
@given(SPANS)
def test_window_is_never_quiet_when_it_was_in_use_or_not_known(
    spans: list[tuple[float, float | None]],
) -> None:
    window, now = Window(SECONDS, THRESHOLD), 0.0
    for length, value in spans:
        window.add(now, now + length, value)
        now += length
    within = last(SECONDS, spans)
    known = sum(length for length, value in within if value is not None)
    used = sum(length * value for length, value in within if value is not None)
    if known < 0.79 * SECONDS or used > (THRESHOLD + 0.01) * known:
        assert window.state != "quiet"
    if known > 0.81 * SECONDS and used < (THRESHOLD - 0.01) * known:
        assert window.state == "quiet"
