"""Machines that are rented by bid, held against every adapter whose provider takes bids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podferry.adapters.providers.registry import ProviderAdapter
from podferry.domain import errors
from podferry.domain.offer import Market
from podferry.ports.gpu_cloud import LaunchRequest, ViewState
from tests.contract.providers.machines import WANTED, a_launch, cheapest, end
from tests.contract.providers.simulation import Simulation, wait_until

SPOT = replace(WANTED, markets=(Market.SPOT,))
BOTH = replace(WANTED, markets=tuple(Market))
CAP = 190_000


@pytest.fixture
def bids(simulation: Simulation) -> ProviderAdapter:
    """A provider that takes bids."""
    if not simulation.has_fault("outbid"):
        pytest.skip(f"{simulation.provider} takes no bids")
    return simulation.cloud


def a_bid(cloud: ProviderAdapter) -> LaunchRequest:
    return replace(a_launch(cloud), offer=cheapest(cloud, SPOT))


def a_running_bid(cloud: ProviderAdapter) -> str:
    made = cloud.create(a_bid(cloud))
    wait_until(lambda: cloud.get(made).ports != (), "the machine runs")
    return made


def test_a_bid_costs_less_than_the_same_machine_on_demand(bids: ProviderAdapter) -> None:
    cheapest_of = {
        market: cheapest(bids, replace(WANTED, markets=(market,))).price_microusd_per_hour
        for market in Market
    }

    assert cheapest_of[Market.SPOT] < cheapest_of[Market.ON_DEMAND]
    listed = bids.list_offers(BOTH)
    for market, price in cheapest_of.items():
        of_it = [o.price_microusd_per_hour for o in listed if o.market is market]
        assert min(of_it) == price


def test_a_bid_and_its_contract_stay_below_the_price_cap(bids: ProviderAdapter) -> None:
    free = max(
        (o for o in bids.list_offers(SPOT) if o.price_microusd_per_hour > CAP),
        key=lambda offer: -offer.price_microusd_per_hour,
    )
    capped = replace(SPOT, max_price_microusd_per_hour=free.price_microusd_per_hour - 1)
    (offer,) = [o for o in bids.list_offers(capped) if o.host == free.host]

    made = bids.create(replace(a_launch(bids), offer=offer))

    assert offer.price_microusd_per_hour == capped.max_price_microusd_per_hour
    wait_until(lambda: bids.get(made).price_microusd_per_hour is not None, "a price is shown")
    price = bids.get(made).price_microusd_per_hour
    assert price is not None
    assert 0 <= offer.price_microusd_per_hour - price <= 1


def test_a_cap_below_the_least_bid_is_not_bid(bids: ProviderAdapter) -> None:
    offers = bids.list_offers(replace(SPOT, max_price_microusd_per_hour=1))

    assert offers
    assert all(offer.price_microusd_per_hour > 1 for offer in offers)


def test_promise_03_what_is_outbid_stands_and_costs_until_it_is_given_up(
    simulation: Simulation, bids: ProviderAdapter
) -> None:
    made = a_running_bid(bids)

    assert simulation.outbid(made).status_code == 200

    view = bids.get(made)
    assert (view.state, view.reason) == (ViewState.RECLAIMED, "outbid")
    assert [each.state for each in bids.find(view.stamp or "")] == [ViewState.RECLAIMED]
    end(bids, made)
    assert bids.get(made).state is ViewState.GONE
    assert simulation.instances() == []


def test_what_was_outbid_and_wakes_up_is_shown_as_starting(
    simulation: Simulation, bids: ProviderAdapter
) -> None:
    made = a_running_bid(bids)
    simulation.outbid(made)

    simulation.resume(made)

    wait_until(lambda: bids.get(made).ports != (), "it runs again")
    assert bids.get(made).state is ViewState.STARTING


def test_case_p1_a_bid_that_no_longer_suffices_leaves_a_machine_that_is_found_and_ended(
    simulation: Simulation, bids: ProviderAdapter
) -> None:
    launch = a_bid(bids)
    too_low = replace(launch.offer, reference=launch.offer.reference | {"bid_microusd": "1000"})

    with pytest.raises(errors.OutcomeUnknownError):
        bids.create(replace(launch, offer=too_low))

    (view,) = bids.find(launch.stamp)
    assert view.state is ViewState.RECLAIMED
    end(bids, view.provider_id)
    assert simulation.instances() == []


def test_an_on_demand_machine_is_not_outbid(simulation: Simulation, bids: ProviderAdapter) -> None:
    made = bids.create(a_launch(bids))

    assert simulation.outbid(made).status_code == 409
