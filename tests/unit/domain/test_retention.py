from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from podferry.domain.retention import (
    KEEP_ALL,
    KEEP_CAPTURES,
    KEEP_CAPTURES_DAILY,
    KEEP_DAILY,
    KEEP_HOURLY,
    Point,
    expired,
    expired_captures,
)

NOW = datetime(2026, 11, 30, 12, 34, 56, tzinfo=UTC)
LONG = timedelta(days=45)

in_any_time = settings(deadline=None, database=None)

ages = st.timedeltas(min_value=timedelta(0), max_value=LONG)
histories = st.lists(st.tuples(ages, st.booleans()), max_size=60).map(
    lambda made: [
        Point(f"snap_{number:03}", NOW - age, is_pinned=is_pinned)
        for number, (age, is_pinned) in enumerate(sorted(made, reverse=True))
    ]
)


def kept(points: list[Point], now: datetime = NOW) -> list[Point]:
    gone = expired(points, now)
    return [point for point in points if point.id not in gone]


def every(interval: timedelta, how_long: timedelta) -> list[Point]:
    count = int(how_long / interval)
    return [Point(f"snap_{n:06}", NOW - how_long + interval * (n + 1)) for n in range(count)]


def test_all_of_a_day_then_one_an_hour_then_one_a_day_are_kept() -> None:
    left = kept(every(timedelta(minutes=5), LONG))
    ages = [NOW - point.at for point in left]
    assert sum(age < KEEP_ALL for age in ages) == 288
    assert sum(KEEP_ALL <= age < KEEP_HOURLY for age in ages) in {6 * 24, 6 * 24 + 1}
    assert sum(KEEP_HOURLY <= age < KEEP_DAILY for age in ages) in {23, 24}
    assert max(ages) < KEEP_DAILY


def test_the_newest_save_of_an_hour_stands_for_it() -> None:
    hour = datetime(2026, 11, 28, 7, tzinfo=UTC)
    points = [Point(str(minute), hour.replace(minute=minute)) for minute in (5, 25, 55)]
    assert expired(points, NOW) == {"5", "25"}


@in_any_time
@given(histories)
def test_what_is_pinned_or_of_the_last_day_is_kept(points: list[Point]) -> None:
    left = {point.id for point in kept(points)}
    assert {p.id for p in points if p.is_pinned or NOW - p.at < KEEP_ALL} <= left


@in_any_time
@given(histories)
def test_every_hour_of_a_week_and_every_day_of_a_month_keeps_its_newest(
    points: list[Point],
) -> None:
    left = kept(points)
    hours = {point.at.replace(minute=0, second=0, microsecond=0) for point in left}
    days = {point.at.date() for point in left}
    for point in points:
        if NOW - point.at < KEEP_HOURLY - timedelta(hours=1):
            assert point.at.replace(minute=0, second=0, microsecond=0) in hours
        if NOW - point.at < KEEP_DAILY - timedelta(days=1):
            assert point.at.date() in days


@in_any_time
@given(histories)
def test_thinning_twice_is_thinning_once(points: list[Point]) -> None:
    assert expired(kept(points), NOW) == frozenset()


@in_any_time
@given(histories, st.lists(ages, max_size=6))
def test_how_often_is_thinned_makes_no_difference(
    points: list[Point], looks: list[timedelta]
) -> None:
    """Saves come one after the other, and are looked through now and then in between."""
    left: list[Point] = []
    seen_until = NOW - 2 * LONG
    for now in (*sorted(NOW - age for age in looks), NOW):
        left = kept([*left, *(p for p in points if seen_until < p.at <= now)], now)
        seen_until = now
    assert left == kept(points)


@in_any_time
@given(histories)
def test_the_order_of_the_points_makes_no_difference(points: list[Point]) -> None:
    assert expired(points, NOW) == expired(list(reversed(points)), NOW)


# Captures of an environment


@in_any_time
@given(histories)
def test_the_newest_captures_one_for_each_day_of_a_week_and_pinned_ones_are_kept(
    points: list[Point],
) -> None:
    gone = expired_captures(points, NOW)
    left = [point for point in points if point.id not in gone]
    assert points[-KEEP_CAPTURES:] == left[-KEEP_CAPTURES:] if points else left == []
    assert {p.id for p in points if p.is_pinned} <= {p.id for p in left}
    days = {p.at.date() for p in points if NOW - p.at < KEEP_CAPTURES_DAILY}
    assert days <= {p.at.date() for p in left}
    most = KEEP_CAPTURES + KEEP_CAPTURES_DAILY.days + 1 + sum(p.is_pinned for p in points)
    assert len(left) <= most


@in_any_time
@given(histories, st.timedeltas(min_value=timedelta(0), max_value=LONG))
def test_a_capture_that_has_expired_is_not_needed_later_either(
    points: list[Point], later: timedelta
) -> None:
    gone = expired_captures(points, NOW)
    left = [point for point in points if point.id not in gone]
    assert expired_captures(points, NOW + later) == gone | expired_captures(left, NOW + later)
