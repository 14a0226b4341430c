"""The clouds as services get them, wrapped, over the simulated providers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from podferry.adapters.providers.clouds import KeyedClouds, ProviderKey
from podferry.adapters.providers.wrapped import Pause, wrapped
from podferry.domain import errors
from podferry.ports.gpu_cloud import GpuCloud
from tests.contract.providers.machines import WANTED, a_launch, end
from tests.contract.providers.simulation import KEY, Simulation


class Counts:
    def __init__(self) -> None:
        self.names: list[str] = []

    def count(self, name: str, amount: int = 1) -> None:
        self.names += [name] * amount


class SkippedTime:
    """Sleeping takes no time here, but time passes."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        return self._seconds

    def sleep(self, seconds: float) -> None:
        self._seconds += seconds


class Bearer(httpx.Auth):
    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:
        request.headers["Authorization"] = f"Bearer {KEY}"
        yield request


def impatient(simulation: Simulation) -> GpuCloud:
    """Wrapped, but without real waiting."""
    time = SkippedTime()
    return wrapped(simulation.adapter(), Counts(), Pause(time.monotonic, time.sleep))


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def clouds(simulation: Simulation, counts: Counts) -> KeyedClouds:
    key = ProviderKey(simulation.api_key(), simulation.url)
    return KeyedClouds(lambda: {simulation.provider: key}, counts)


def test_a_keyed_cloud_rents_finds_and_gives_up(
    simulation: Simulation, clouds: KeyedClouds
) -> None:
    cloud = clouds.get(simulation.provider)
    launch = a_launch(simulation.cloud)

    made = cloud.create(launch)

    assert [view.provider_id for view in cloud.find(launch.stamp)] == [made]
    end(simulation.cloud, made)
    cloud.give_up(made)


def test_a_busy_provider_is_asked_again_for_what_is_safe(simulation: Simulation) -> None:
    cloud = impatient(simulation)
    simulation.set_faults(rate_limit=1)

    assert cloud.list_offers(WANTED)


def test_case_p1_a_busy_provider_is_not_asked_twice_to_rent(simulation: Simulation) -> None:
    launch = a_launch(simulation.cloud)
    simulation.set_faults(rate_limit=1)

    with pytest.raises(errors.ProviderBusyError):
        impatient(simulation).create(launch)

    assert simulation.instances() == []


@pytest.mark.parametrize("running_simulation", ["lambda", "vastai"], indirect=True)
def test_the_documented_minimum_intervals_are_kept(
    simulation: Simulation, clouds: KeyedClouds, counts: Counts
) -> None:
    launch = a_launch(simulation.cloud)
    cloud = clouds.get(simulation.provider)
    made = simulation.cloud.create(launch)
    simulation.set_faults(min_interval=True)

    for _ in range(2):
        cloud.find(launch.stamp)
        cloud.get(made)

    assert counts.names == [f"provider.{simulation.provider}.ok"] * 4


@pytest.mark.parametrize("running_simulation", ["lambda"], indirect=True)
def test_the_first_launch_of_an_account_without_a_key_takes_three_tries(
    simulation: Simulation,
) -> None:
    launch = a_launch(simulation.cloud)
    with httpx.Client(base_url=f"{simulation.url}/api/v1", auth=Bearer()) as client:
        for key in client.get("/ssh-keys").json()["data"]:
            client.delete(f"/ssh-keys/{key['id']}").raise_for_status()
    time = SkippedTime()
    cloud = wrapped(simulation.adapter(), Counts(), Pause(time.monotonic, time.sleep))

    for _ in range(2):
        with pytest.raises(errors.ProviderBusyError) as raised:
            cloud.create(launch)
        assert simulation.instances() == []
        time.sleep(raised.value.retry_after_seconds)
    made = cloud.create(launch)

    assert [view.provider_id for view in cloud.find(launch.stamp)] == [made]


def test_case_x5_logs_hold_no_key_token_or_script(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    cloud = impatient(simulation)
    launch = replace(
        a_launch(simulation.cloud, "exec sleep 3600 # canary-script"),
        environment={"PF_TOKEN": "canary-token", "PF_BUNDLE_URL": "https://b.test/?canary=1"},
    )

    made = cloud.create(launch)
    cloud.find(launch.stamp)
    cloud.get(made)
    other = a_launch(simulation.cloud)
    simulation.set_faults(create_500_but_exists=1)
    with pytest.raises(errors.OutcomeUnknownError):
        impatient(simulation).create(replace(launch, offer=other.offer, stamp=other.stamp))

    written = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
    assert "provider call" in written
    for secret in ("canary", KEY):
        assert secret not in written
