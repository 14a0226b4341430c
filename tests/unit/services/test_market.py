from datetime import timedelta

import pytest

from podferry.adapters.memory.store import MemoryStore
from podferry.adapters.memory.surroundings import ManualClock, MemorySignals, SeededRandomness
from podferry.domain.errors import ProviderBusyError
from podferry.domain.offer import Requirements
from podferry.ports.store import Change
from podferry.services.clouds import Clouds
from podferry.services.experience import Experiences
from podferry.services.market import KEPT_OFFERS, Market
from podferry.services.records import Records
from tests.unit.http.clouds import ListedCloud, ListedClouds, an_offer

ANY = Requirements()
ACCOUNT = "acct_1"


def a_market(*clouds: ListedCloud) -> tuple[Market, MemoryStore, ManualClock]:
    store, clock = MemoryStore(), ManualClock()
    records = Records(store, clock, SeededRandomness())
    seen = Clouds(records, ListedClouds(list(clouds)), MemorySignals())
    return Market(seen, Experiences(records), store, clock), store, clock


def test_a_provider_is_asked_once_in_thirty_seconds() -> None:
    cloud = ListedCloud("vastai", [an_offer()])
    market, _, clock = a_market(cloud)
    first = market.offers(ANY, ACCOUNT)
    clock.advance(timedelta(seconds=29))
    assert market.offers(ANY, ACCOUNT) == first
    assert cloud.asked == 1
    clock.advance(timedelta(seconds=1))
    cloud.offers = []
    assert market.offers(ANY, ACCOUNT).candidates.offers == ()
    assert cloud.asked == 2


def test_other_requirements_are_another_question() -> None:
    cloud = ListedCloud("vastai", [an_offer()])
    market, _, _ = a_market(cloud)
    market.offers(ANY, ACCOUNT)
    market.offers(Requirements(gpu_count=2), ACCOUNT)
    assert cloud.asked == 2


def test_a_failure_is_not_kept() -> None:
    cloud = ListedCloud("vastai", [an_offer()], ProviderBusyError("busy"))
    market, _, _ = a_market(cloud)
    with pytest.raises(ProviderBusyError):
        market.offers(ANY, ACCOUNT)
    cloud.failure = None
    assert len(market.offers(ANY, ACCOUNT).candidates.offers) == 1


def test_thousands_of_offers_fit_in_the_table_and_none_is_hidden_from_who_asked_first() -> None:
    offers = [an_offer(price=price) for price in range(5000, 0, -1)]
    cloud = ListedCloud("vastai", offers)
    market, _, _ = a_market(cloud)
    assert len(market.offers(ANY, ACCOUNT).candidates.offers) == 5000
    kept = market.offers(ANY, ACCOUNT).candidates.offers
    assert [o.price_microusd_per_hour for o in kept] == list(range(1, KEPT_OFFERS + 1))
    assert cloud.asked == 1


def test_two_askers_at_once_both_get_their_answer() -> None:
    market, store, _ = a_market(ListedCloud("vastai", [an_offer()]))
    plain = store.commit

    def commit(*changes: Change) -> None:
        store.commit = plain  # type: ignore[method-assign]
        market.offers(ANY, ACCOUNT)
        plain(*changes)

    store.commit = commit  # type: ignore[method-assign]
    assert len(market.offers(ANY, ACCOUNT).candidates.offers) == 1
