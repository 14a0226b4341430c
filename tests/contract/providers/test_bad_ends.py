"""Boots that fail or hang, and machines taken back: how every adapter shows them."""

from __future__ import annotations

from podferry.adapters.providers.registry import ProviderAdapter
from podferry.domain.offer import Kind
from podferry.ports.gpu_cloud import MachineView, ViewState
from tests.contract.providers.machines import NEVER_UP, OVER, a_launch, end
from tests.contract.providers.simulation import Simulation, wait_until

ON_ITS_WAY = {ViewState.PULLING, ViewState.STARTING}
LEAST_SECONDS = {Kind.CONTAINER: 600, Kind.VM: 900, Kind.BAREMETAL: 1800}


def test_case_p4_a_machine_that_was_promised_and_never_made_is_not_found(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    launch = a_launch(cloud)
    simulation.set_faults(create_ok_but_nothing=1)

    promised = cloud.create(launch)

    view = cloud.get(promised)
    assert (view.state, view.stamp) == (ViewState.GONE, None)
    assert cloud.find(launch.stamp) == []
    cloud.give_up(promised)


def test_case_p5_a_machine_has_the_time_to_boot_that_its_kind_needs(
    cloud: ProviderAdapter,
) -> None:
    for kind, boot in cloud.traits.boots.items():
        assert boot.deadline_seconds >= LEAST_SECONDS[kind]


def test_case_p13_a_boot_that_fails_is_shown_and_can_be_cleared_away(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    simulation.set_faults(boot_fails=1)
    made = cloud.create(a_launch(cloud))

    wait_until(lambda: cloud.get(made).state in NEVER_UP, "the failure is shown")

    cloud.give_up(made)
    assert cloud.get(made).state in OVER


def test_a_machine_that_hangs_while_it_starts_never_looks_up(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    simulation.set_faults(boot_never="pulling")
    launch = a_launch(cloud)
    made = cloud.create(launch)

    wait_until(lambda: cloud.get(made).state in ON_ITS_WAY, "the machine stands")

    # A VM has its address before anything runs on it.
    view = cloud.get(made)
    assert view.ports == () or launch.offer.kind is not Kind.CONTAINER


def is_shown_to_run(view: MachineView) -> bool:
    return bool(view.ports or view.login)


def test_a_machine_the_provider_took_back_is_lost_stopped_or_gone(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    made = cloud.create(a_launch(cloud))
    wait_until(lambda: is_shown_to_run(cloud.get(made)), "the machine runs")

    simulation.reclaim(made)

    assert cloud.get(made).state in {ViewState.LOST, ViewState.STOPPED, ViewState.GONE}
    end(cloud, made)
