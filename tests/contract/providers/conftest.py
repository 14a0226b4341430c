"""Every test of this folder runs once for each provider in the registry, unless it names one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from podferry.adapters.providers.registry import PROVIDERS, ProviderAdapter
from tests.contract.providers.machines import end
from tests.contract.providers.simulation import Simulation, start_simulation


@pytest.fixture(scope="session", params=sorted(PROVIDERS))
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
