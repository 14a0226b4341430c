"""Bytes over time."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from podferry.domain.storage import StorageUse, use_id
from tests.contract.entities import ACCOUNT, NOW

GIB = 2**30


def a_use(**changes) -> StorageUse:
    return StorageUse(
        id=use_id("vol_1"),
        account_id=ACCOUNT,
        created_at=NOW,
        subject_id="vol_1",
        counted_to=NOW,
        **changes,
    )


def test_what_is_stored_for_an_hour_costs_an_hour():
    use = a_use().grown_by(10 * GIB, NOW)
    later = use.grown_by(-10 * GIB, NOW + timedelta(hours=1))
    assert later.byte_seconds_at(NOW + timedelta(days=9)) == 10 * GIB * 3600


@given(
    st.lists(st.tuples(st.integers(-(10**12), 10**12), st.integers(0, 10**7)), max_size=20),
    st.integers(0, 10**7),
)
def test_the_sum_over_time_does_not_depend_on_when_it_is_counted(changes, last):
    """Parts of a second are carried on, so that many small changes lose nothing."""
    use, now, exact = a_use(), NOW, 0.0
    for delta, milliseconds in changes:
        now += timedelta(milliseconds=milliseconds)
        exact += use.bytes * milliseconds / 1000
        use = use.grown_by(max(delta, -use.bytes), now)
        assert use.counted_to <= now < use.counted_to + timedelta(seconds=1)
    now += timedelta(milliseconds=last)
    exact += use.bytes * last / 1000
    # Each change may be counted up to a second early, with what changed.
    bound = sum(abs(delta) for delta, _ in changes) + use.bytes + 1
    assert abs(use.byte_seconds_at(now) - exact) <= bound


def test_a_clock_that_goes_back_takes_nothing_away():
    use = a_use(bytes=GIB, byte_seconds=77)
    assert use.byte_seconds_at(NOW - timedelta(hours=1)) == 77
    assert use.grown_by(1, NOW - timedelta(hours=1)).counted_to == NOW
