"""A pod lives at a provider that came by one file and one line: launch, stop, and a start there."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from box import Box
from fake_cloud import FakeCloud
from world import World

from podferry.domain.offer import Offer, Requirements
from podferry.domain.operation import OperationState
from podferry.ports.gpu_cloud import LaunchRequest, MachineView, ViewState
from tests.contract.providers.simulation import Simulation
from tests.contract.providers.toy import toy_market


class AtToy(FakeCloud):
    """Rents at the toy market through its adapter; the agents are those of this world."""

    def __init__(self, world: World, simulation: Simulation) -> None:
        super().__init__(world, "toy")
        self.adapter = simulation.cloud
        self.traits = self.adapter.traits

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        return self.adapter.list_offers(wanted)

    def create(self, request: LaunchRequest) -> str:
        made = self.adapter.create(replace(request, bootstrap="exec sleep 3600"))
        self.boxes[made] = Box(self._world, self, request, made)
        return made

    def list_machines(self) -> list[MachineView]:
        return [self._in_this_time(view) for view in self.adapter.list_machines()]

    def get(self, provider_id: str) -> MachineView:
        return self._in_this_time(self.adapter.get(provider_id))

    def give_up(self, provider_id: str) -> None:
        self.adapter.give_up(provider_id)
        self.boxes[provider_id].is_gone = self.get(provider_id).state is ViewState.GONE

    def _in_this_time(self, view: MachineView) -> MachineView:
        """The market's clock is the real one."""
        return replace(view, billing_started_at=None)


@pytest.fixture
def toy(tmp_path: Path, socket_enabled: None) -> Iterator[Simulation]:
    with toy_market(tmp_path) as simulation:
        yield simulation


def test_a_pod_is_launched_stopped_and_started_at_a_seventh_provider(
    toy: Simulation, world: World
) -> None:
    world.clouds.add(AtToy(world, toy))
    pod = world.launch()
    assert world.machine(pod).offer.provider == "toy", "it is the cheapest"
    assert [each["id"] for each in toy.instances()] == [world.machine(pod).provider_id]
    world.box.volume["a"] = "1"

    stopped = world.stop(pod)
    assert stopped.state is OperationState.SUCCEEDED
    assert toy.instances() == []

    started = world.start(pod, providers=("toy",))
    assert started.state is OperationState.SUCCEEDED
    assert world.box.volume == {"a": "1"}
    assert len(toy.instances()) == 1
    assert world.machine(pod).price_microusd_per_hour == 350_000
