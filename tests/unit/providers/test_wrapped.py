"""Retries, paces, logs and counters, around an adapter that follows a script."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from podferry.adapters.providers.registry import EVERY_CALL
from podferry.adapters.providers.wrapped import Pause, wrapped
from podferry.domain import errors
from podferry.domain.offer import Offer, Requirements
from podferry.ports.gpu_cloud import GpuCloud, LaunchRequest, MachineView, ViewState
from tests.contract.entities import cloud_traits
from tests.unit.providers.support import a_launch, an_offer

TRAITS = cloud_traits(poll_seconds=1, listing_settles_seconds=1)
LAUNCH = a_launch(an_offer("acme", {}))


class ScriptedCloud:
    """Raises what it is given, in turn, and succeeds once that is used up."""

    name = "acme"
    traits = TRAITS

    def __init__(
        self, failures: list[Exception], intervals: Mapping[str, float] | None = None
    ) -> None:
        self.failures = list(failures)
        self.min_interval_seconds: Mapping[str, float] = intervals or {}
        self.calls: list[str] = []
        self.slow: Callable[[], None] = lambda: None

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.slow()
        if self.failures:
            raise self.failures.pop(0)

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        self._call("list_offers")
        return []

    def create(self, request: LaunchRequest) -> str:
        self._call("create")
        return "id"

    def find(self, stamp: str) -> list[MachineView]:
        self._call("find")
        return []

    def get(self, provider_id: str) -> MachineView:
        self._call("get")
        return MachineView(
            provider_id=provider_id, stamp=None, state=ViewState.GONE, raw_status="none"
        )

    def give_up(self, provider_id: str) -> None:
        self._call("give_up")


@dataclass
class FakeTime:
    seconds: float = 0.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


class Counts:
    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def count(self, name: str, amount: int = 1) -> None:
        self.totals[name] = self.totals.get(name, 0) + amount


@dataclass
class Rig:
    inner: ScriptedCloud
    time: FakeTime
    counts: Counts
    cloud: GpuCloud


def a_rig(failures: list[Exception], intervals: Mapping[str, float] | None = None) -> Rig:
    inner, time, counts = ScriptedCloud(failures, intervals), FakeTime(), Counts()
    return Rig(inner, time, counts, wrapped(inner, counts, Pause(time.monotonic, time.sleep)))


def busy(seconds: float = 1.0) -> errors.ProviderBusyError:
    return errors.ProviderBusyError("busy", retry_after_seconds=seconds)


SAFE_CALLS = {
    "list_offers": lambda cloud: cloud.list_offers(Requirements()),
    "find": lambda cloud: cloud.find("stamp"),
    "get": lambda cloud: cloud.get("id"),
    "give_up": lambda cloud: cloud.give_up("id"),
}


@pytest.mark.parametrize("name", SAFE_CALLS)
def test_a_safe_call_is_tried_again_while_the_provider_is_busy(name: str) -> None:
    rig = a_rig([busy(2.0), busy(3.0)])

    SAFE_CALLS[name](rig.cloud)

    assert rig.inner.calls == [name] * 3
    assert rig.time.slept == [2.0, 3.0]


def test_a_safe_call_is_tried_three_times_at_most() -> None:
    rig = a_rig([busy() for _ in range(9)])

    with pytest.raises(errors.ProviderBusyError):
        rig.cloud.get("id")

    assert rig.inner.calls == ["get"] * 3


@pytest.mark.parametrize("waits", [[11.0], [6.0, 6.0]])
def test_waiting_that_would_take_longer_than_ten_seconds_is_left_to_the_caller(
    waits: list[float],
) -> None:
    rig = a_rig([busy(seconds) for seconds in waits])

    with pytest.raises(errors.ProviderBusyError):
        rig.cloud.find("stamp")

    assert rig.time.slept == waits[:-1]


def test_case_p1_a_create_is_never_repeated() -> None:
    for failure in (busy(), errors.OutcomeUnknownError("cut off")):
        rig = a_rig([failure])

        with pytest.raises(type(failure)):
            rig.cloud.create(LAUNCH)

        assert rig.inner.calls == ["create"]
        assert rig.time.slept == []


@pytest.mark.parametrize(
    "error", [errors.ProviderRefusedError, errors.NotGoneYetError, errors.NoCapacityError]
)
def test_other_errors_are_not_retried(error: type[errors.CloudError]) -> None:
    rig = a_rig([error("no")])

    with pytest.raises(error):
        rig.cloud.give_up("id")

    assert rig.inner.calls == ["give_up"]


def test_calls_of_one_kind_keep_their_distance_and_others_do_not_wait() -> None:
    rig = a_rig([], {"create": 4.5})

    for _ in range(2):
        rig.cloud.create(LAUNCH)
        rig.cloud.get("id")

    assert rig.time.slept == [4.5]


def test_calls_of_all_kinds_may_have_to_keep_their_distance_too() -> None:
    rig = a_rig([], {EVERY_CALL: 1.0, "create": 4.5})

    rig.cloud.create(LAUNCH)
    rig.cloud.get("id")
    rig.cloud.find("stamp")
    rig.cloud.create(LAUNCH)

    assert rig.time.slept == [1.0, 1.0, 2.5]


def test_the_distance_counts_from_the_end_of_a_slow_call() -> None:
    rig = a_rig([], {"get": 2.0})
    rig.inner.slow = lambda: rig.time.sleep(30.0)

    rig.cloud.get("id")
    rig.cloud.get("id")

    assert rig.time.slept == [30.0, 2.0, 30.0]


def test_no_wait_after_a_pause_that_was_long_enough() -> None:
    rig = a_rig([], {"get": 2.0})

    rig.cloud.get("id")
    rig.time.seconds += 2.0
    rig.cloud.get("id")

    assert rig.time.slept == []


def test_a_call_that_would_have_to_wait_too_long_is_busy_and_sends_nothing() -> None:
    rig = a_rig([], {"create": 11.0})

    rig.cloud.create(LAUNCH)
    with pytest.raises(errors.ProviderBusyError) as raised:
        rig.cloud.create(LAUNCH)

    assert raised.value.retry_after_seconds == 11.0
    assert rig.inner.calls == ["create"]


def test_until_a_busy_provider_wants_to_be_asked_nobody_asks_it_again() -> None:
    busy = errors.ProviderBusyError("429", retry_after_seconds=60.0)
    cloud, time = ScriptedCloud([busy]), FakeTime()
    polite = wrapped(cloud, Counts(), Pause(time.monotonic, time.sleep))
    with pytest.raises(errors.ProviderBusyError):
        polite.create(LAUNCH)
    time.seconds += 20
    with pytest.raises(errors.ProviderBusyError) as caught:
        polite.create(LAUNCH)
    assert caught.value.retry_after_seconds == 40
    assert cloud.calls == ["create"]
    time.seconds += 40
    assert polite.create(LAUNCH) == "id"


def test_every_attempt_is_counted_by_outcome() -> None:
    rig = a_rig([busy(), busy(), errors.NotGoneYetError("starting")])

    with pytest.raises(errors.NotGoneYetError):
        rig.cloud.give_up("id")
    rig.cloud.give_up("id")

    assert rig.counts.totals == {
        "provider.acme.provider_busy": 2,
        "provider.acme.not_gone_yet": 1,
        "provider.acme.ok": 1,
    }


def test_logs_name_call_and_outcome_under_a_constant_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    rig = a_rig([busy()])

    rig.cloud.get("secret-id")

    records = [record.__dict__ for record in caplog.records]
    assert [record["msg"] for record in records] == ["provider call"] * 2
    assert [record["outcome"] for record in records] == ["provider_busy", "ok"]
    assert {record["provider"] for record in records} == {"acme"}
    assert {record["call"] for record in records} == {"get"}


def test_a_programming_error_is_counted_as_ours_and_passes() -> None:
    rig = a_rig([ZeroDivisionError()])

    with pytest.raises(ZeroDivisionError):
        rig.cloud.get("id")

    assert rig.counts.totals == {"provider.acme.internal": 1}
