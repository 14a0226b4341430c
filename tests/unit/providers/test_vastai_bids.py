"""Which bids Vast.ai's adapter offers: enough to lead, never more than the pod's cap."""

from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podferry.adapters.providers.units import microusd
from podferry.adapters.providers.vastai import VastCloud
from podferry.adapters.providers.vastai_offers import VastOffer, offers_of
from podferry.domain.offer import Market, Offer, Requirements
from tests.unit.providers.support import answer, bodies, changed, scripted

ROW: dict[str, Any] = bodies("vastai")["offers"]["offers"][0]
LEAST_BID = 180_000
DISK = 13_542
"""65 GB at 0.15 dollars for a month of 720 hours, rounded up."""
a_cloud = partial(scripted, VastCloud)


def spot(cap: int | None = None, **values: Any) -> Requirements:
    wanted: dict[str, Any] = {"disk_gib": 60, "markets": (Market.SPOT,)}
    return Requirements(max_price_microusd_per_hour=cap, **wanted | values)


def offered(wanted: Requirements, **row: Any) -> list[Offer]:
    return list(offers_of(VastOffer.model_validate(changed(ROW, **row)), wanted))


def test_one_row_is_an_offer_of_each_market_that_is_wanted() -> None:
    both = offered(spot(markets=tuple(Market)))

    assert [(offer.market, offer.reference) for offer in both] == [
        (Market.ON_DEMAND, {"ask_id": "31415926"}),
        (Market.SPOT, {"ask_id": "31415926", "bid_microusd": "225000"}),
    ]
    assert both[1].price_microusd_per_hour == 225_000 + DISK
    assert [offer.market for offer in offered(spot())] == [Market.SPOT]


@pytest.mark.parametrize(
    ("markets", "searched"),
    [
        ((Market.ON_DEMAND,), "ondemand"),
        ((Market.SPOT,), "bid"),
        ((Market.ON_DEMAND, Market.SPOT), "ondemand"),
    ],
)
def test_one_search_serves_whatever_is_wanted(markets: tuple[Market, ...], searched: str) -> None:
    cloud, script = a_cloud(answer(200, {"offers": [ROW]}))

    offers = cloud.list_offers(spot(markets=markets))

    assert script.body()["type"] == searched
    assert {offer.market for offer in offers} == set(markets)


@pytest.mark.parametrize(
    ("cap", "bid"),
    [
        (None, 225_000),
        (225_000 + DISK, 225_000),
        (224_999 + DISK, 224_999),
        (LEAST_BID + DISK, LEAST_BID),
        (LEAST_BID + DISK - 1, LEAST_BID),
        (1, LEAST_BID),
    ],
)
def test_the_bid_is_a_quarter_over_the_least_or_what_the_cap_leaves(
    cap: int | None, bid: int
) -> None:
    (offer,) = offered(spot(cap))

    assert offer.reference["bid_microusd"] == str(bid)


@given(
    least=st.decimals("0.001", "200", places=4),
    storage=st.decimals("0.01", "9", places=2),
    cap=st.integers(1, 200_000_000),
)
def test_no_bid_is_over_the_cap_or_under_the_least(
    least: Decimal, storage: Decimal, cap: int
) -> None:
    for offer in offered(spot(cap), min_bid=least, storage_cost=storage):
        bid = int(offer.reference["bid_microusd"])
        assert microusd(least) <= bid <= 128_000_000
        assert offer.price_microusd_per_hour <= cap or bid == microusd(least)


def test_a_row_without_a_least_bid_is_not_bid_on() -> None:
    assert offered(spot(), min_bid=None) == []
    assert [o.market for o in offered(spot(markets=tuple(Market)), min_bid=None)] == [
        Market.ON_DEMAND
    ]


def test_the_price_of_a_bid_is_not_taken_for_that_on_demand() -> None:
    assert [o.market for o in offered(spot(markets=tuple(Market)), is_bid=True)] == [Market.SPOT]
