"""What only some providers can do wrong, held against every adapter whose provider can."""

from __future__ import annotations

import pytest

from podferry.adapters.providers.registry import ProviderAdapter
from podferry.domain import errors
from podferry.ports.gpu_cloud import ViewState
from tests.contract.providers.machines import a_launch, end, wait_for
from tests.contract.providers.simulation import Simulation


def turn_on(simulation: Simulation, **faults: object) -> None:
    for name in faults:
        if not simulation.has_fault(name):
            pytest.skip(f"{simulation.provider} does not go wrong like this")
    simulation.set_faults(**faults)


def test_case_p9_a_young_machine_that_get_does_not_know_is_not_shown_as_ended(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    turn_on(simulation, get_lag_seconds=60)
    launch = a_launch(cloud)

    made = cloud.create(launch)

    view = cloud.get(made)
    assert (view.state, view.stamp) == (ViewState.GONE, None)
    assert [view.provider_id for view in cloud.find(launch.stamp)] == [made]
    cloud.give_up(made)
    assert [each["id"] for each in simulation.instances()] == [made]
    simulation.skip(61)
    assert cloud.get(made).stamp == launch.stamp


def test_an_offer_that_the_account_may_not_have_leaves_the_others(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    turn_on(simulation, account_limit=True)

    with pytest.raises(errors.QuotaExceededError):
        cloud.create(a_launch(cloud))

    assert simulation.instances() == []


def test_case_p3_a_delete_that_does_not_fit_the_state_is_to_be_repeated(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    turn_on(simulation, delete_not_now=1)
    made = cloud.create(a_launch(cloud))
    wait_for(cloud, made, ViewState.STARTING)

    with pytest.raises(errors.NotGoneYetError):
        cloud.give_up(made)

    assert [each["id"] for each in simulation.instances()] == [made]
    end(cloud, made)
    assert simulation.instances() == []


def test_case_p3_what_is_ending_is_not_gone_and_may_be_given_up_again(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    turn_on(simulation, terminating_seconds=120)
    launch = a_launch(cloud)
    made = cloud.create(launch)
    wait_for(cloud, made, ViewState.STARTING)

    for _ in range(2):
        cloud.give_up(made)
        views = [cloud.get(made), *cloud.find(launch.stamp)]
        assert [view.state for view in views] == [ViewState.TERMINATING] * 2

    simulation.skip(121)
    assert cloud.get(made).state is ViewState.GONE


def test_a_status_that_nobody_knows_is_neither_alive_nor_gone(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    turn_on(simulation, status_says="HIBERNATED")
    launch = a_launch(cloud)

    made = cloud.create(launch)

    views = [cloud.get(made), *cloud.find(launch.stamp)]
    assert [view.state for view in views] == [ViewState.UNKNOWN] * 2


def test_a_refusal_that_comes_after_the_answer_is_shown_with_its_reason(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    turn_on(simulation, late_refusal=1)

    made = cloud.create(a_launch(cloud))

    view = cloud.get(made)
    assert view.state is ViewState.FAILED
    assert "EXHAUSTED" in str(view.reason)
    assert simulation.instances() == []
