"""Whatever goes wrong with a provider: errors are those of the port, and no machine is missed."""

from __future__ import annotations

from typing import Any

import pytest

from local.providers.faults import KINDS
from podferry.adapters.providers.registry import ProviderAdapter
from podferry.domain import errors
from tests.contract.providers.machines import OVER, a_launch, end
from tests.contract.providers.simulation import Simulation
from tests.contract.providers.test_gpu_cloud import SAFE_CALLS, Call

VALUES = (1, True, "odd")
LEAVES_NOTHING = {"boot_fails", "create_ok_but_nothing", "late_refusal"}


def value_for(fault: str) -> Any:
    return next(value for value in VALUES if KINDS[fault].accepts(value))


def answers_in_the_ports_words(call: Call, cloud: ProviderAdapter) -> bool:
    """False if it failed, with an error of ours; any other error is a bug."""
    try:
        call(cloud)
    except errors.CloudError:
        return False
    return True


@pytest.mark.parametrize("fault", sorted(KINDS))
def test_case_p1_after_any_fault_the_list_shows_exactly_what_exists_and_it_can_be_ended(
    simulation: Simulation, cloud: ProviderAdapter, fault: str
) -> None:
    if not simulation.has_fault(fault):
        pytest.skip(f"{simulation.provider} does not go wrong like this")
    launch = a_launch(cloud)
    simulation.set_faults(**{fault: value_for(fault)})

    was_made = answers_in_the_ports_words(lambda cloud: cloud.create(launch), cloud)
    for call in SAFE_CALLS.values():
        answers_in_the_ports_words(call, cloud)
    simulation.clear_faults()

    existing = {each["id"] for each in simulation.instances()}
    standing = [v.provider_id for v in cloud.find(launch.stamp) if v.state not in OVER]
    assert set(standing) >= existing
    assert len(standing) == len(set(standing)) <= 1
    assert existing or not was_made or fault in LEAVES_NOTHING
    for provider_id in standing:
        end(cloud, provider_id)
    assert simulation.instances() == []


@pytest.mark.parametrize("name", SAFE_CALLS)
def test_a_page_of_a_proxy_is_busy(
    simulation: Simulation, cloud: ProviderAdapter, name: str
) -> None:
    simulation.set_faults(proxy_page=1)

    with pytest.raises(errors.ProviderBusyError):
        SAFE_CALLS[name](cloud)


def test_case_p1_a_page_of_a_proxy_in_place_of_a_create_proves_nothing(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    launch = a_launch(cloud)
    simulation.set_faults(proxy_page=1)

    with pytest.raises((errors.OutcomeUnknownError, errors.ProviderBusyError)):
        cloud.create(launch)

    assert cloud.find(launch.stamp) == []
