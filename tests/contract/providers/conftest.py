"""Every test of this folder runs once for each provider in the registry, unless it names one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from podferry.adapters.providers.registry import PROVIDERS, ProviderAdapter, adapter_class
from podferry.domain.offer import Channel
from tests.contract.providers.machines import end
from tests.contract.providers.simulation import Simulation, start_simulation


def simulated() -> list[str]:
    """Every provider; what it rents bare beside other things counts as a provider of its own."""
    bare = (
        f"{name}-{kind}"
        for name in PROVIDERS
        for kind, boot in adapter_class(name).traits.boots.items()
        if boot.channel is Channel.SSH
    )
    return sorted((*PROVIDERS, *bare))


@pytest.fixture(scope="session", params=simulated())
def running_simulation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Simulation]:
    base = tmp_path_factory.getbasetemp() / "simulated-providers"
    base.mkdir(exist_ok=True)
    simulation = start_simulation(request.param, base)
    yield simulation
    simulation.stop()


@pytest.fixture
def simulation(running_simulation: Simulation) -> Iterator[Simulation]:
    """The provider without faults, with money, and empty again afterwards."""
    running_simulation.set_balance(100_000_000)
    yield running_simulation
    running_simulation.clear_faults()
    for instance in running_simulation.instances():
        end(running_simulation.cloud, instance["id"])


@pytest.fixture
def cloud(simulation: Simulation) -> ProviderAdapter:
    return simulation.cloud
