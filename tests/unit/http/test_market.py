"""What can be rented, over HTTP."""

from dataclasses import replace

import pytest

from podferry.domain.errors import ProviderBusyError, ProviderRefusedError
from podferry.domain.offer import BillingRule, Kind, Market
from tests.unit.http.clouds import ListedCloud, ListedClouds, an_offer
from tests.unit.http.deployment import Deployment, MemoryPorts, User

BUSY = ProviderBusyError("slow down", retry_after_seconds=30)


def a_user(*clouds: ListedCloud) -> User:
    return Deployment(MemoryPorts(ListedClouds(list(clouds)))).an_account()


def test_offers_of_all_providers_come_cheapest_first() -> None:
    user = a_user(
        ListedCloud("fluence", [an_offer("fluence", 400_000)]),
        ListedCloud("vastai", [an_offer("vastai", 500_000), an_offer("vastai", 300_000)]),
    )
    listed = user.get("/v1/offers").json
    assert [(o["provider"], o["price_microusd_per_hour"]) for o in listed["data"]] == [
        ("vastai", 300_000),
        ("fluence", 400_000),
        ("vastai", 500_000),
    ]
    assert (listed["next_cursor"], listed["silent_providers"]) == (None, [])


def test_offers_are_filtered_and_what_was_ruled_out_is_counted() -> None:
    offers = [an_offer(price=1, gpu="H100"), an_offer(price=2), an_offer(price=3)]
    user = a_user(ListedCloud("vastai", offers))
    query = {"gpu_names": ["RTX 4090", "A100"], "max_price_microusd_per_hour": 2, "limit": 1}
    listed = user.get("/v1/offers", query=query).json
    assert [o["price_microusd_per_hour"] for o in listed["data"]] == [2]
    assert listed["ruled_out"] == {"gpu_names": 1, "max_price_microusd_per_hour": 1}


def test_only_the_providers_that_are_asked_for_are_asked() -> None:
    fluence, vastai = ListedCloud("fluence", []), ListedCloud("vastai", [an_offer()])
    listed = a_user(fluence, vastai).get("/v1/offers", query={"providers": "vastai"}).json
    assert (len(listed["data"]), fluence.asked, vastai.asked) == (1, 0, 1)


def test_a_silent_provider_is_named_and_does_not_hide_the_others() -> None:
    user = a_user(ListedCloud("fluence", [], BUSY), ListedCloud("vastai", [an_offer()]))
    listed = user.get("/v1/offers").json
    assert len(listed["data"]) == 1
    assert listed["silent_providers"] == [
        {"name": "fluence", "code": "provider_busy", "detail": "slow down"}
    ]


def test_when_no_provider_answers_the_caller_is_told_when_to_come_back() -> None:
    reply = a_user(ListedCloud("fluence", [], BUSY)).get("/v1/offers")
    assert (reply.status, reply.code) == (503, "provider_busy")
    assert (reply.json["retryable"], reply.headers["Retry-After"]) == (True, "30")


def test_a_provider_that_refuses_our_key_is_a_bad_gateway() -> None:
    refused = ProviderRefusedError("the key is wrong")
    reply = a_user(ListedCloud("fluence", [], refused)).get("/v1/offers")
    assert (reply.status, reply.code, reply.json["retryable"]) == (502, "provider_refused", False)


def test_without_provider_keys_there_is_nothing_to_rent(user: User) -> None:
    assert user.get("/v1/offers").json["data"] == []
    assert user.get("/v1/providers").json == {"data": [], "next_cursor": None}


def test_providers_with_a_key_are_listed() -> None:
    user = a_user(ListedCloud("vastai", []), ListedCloud("fluence", []))
    assert user.get("/v1/providers").json["data"] == [
        {"name": "fluence", "is_own_key": False, "boot_deadline_seconds": 600},
        {"name": "vastai", "is_own_key": False, "boot_deadline_seconds": 600},
    ]


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ({"gpu_count": 0}, "query gpu_count"),
        ({"gpu_count": 17}, "query gpu_count"),
        ({"gpu_count": "two"}, "query gpu_count"),
        ({"countries": "Germany"}, "query countries.0"),
        ({"providers": "no such!"}, "query providers.0"),
        ({"gpu_nmaes": "H100"}, "query gpu_nmaes"),
        ({"disk_gib": 0}, "query disk_gib"),
    ],
)
def test_a_filter_that_makes_no_sense_is_named(
    user: User, query: dict[str, object], where: str
) -> None:
    reply = user.get("/v1/offers", query=query)
    assert (reply.status, [e["where"] for e in reply.json["errors"]]) == (400, [where])


def test_a_provider_that_there_is_not_is_refused_with_those_that_there_are(user: User) -> None:
    reply = user.get("/v1/offers", query={"providers": ["vastai", "vast"]})
    assert reply.status == 400
    assert reply.json["errors"] == [
        {"where": "query providers.1", "problem": "there is no provider vast; there are vastai"}
    ]


FULL_HOURS = BillingRule(increment_seconds=3600, minimum_seconds=3600)


def shown(user: User, **query: object) -> list[int]:
    listed = user.get("/v1/offers", query=query).json
    return [offer["price_microusd_per_hour"] for offer in listed["data"]]


def a_mixed_market() -> User:
    steady = replace(an_offer(price=300_000), reliability=0.99)
    hourly = replace(an_offer(price=290_000), billing=FULL_HOURS, reliability=None)
    spot = replace(an_offer(price=100_000), market=Market.SPOT, reliability=0.5)
    vm = replace(an_offer(price=310_000), kind=Kind.VM, cuda_max="12.2", reliability=0.999)
    return a_user(ListedCloud("vastai", [steady, hourly, spot, vm]))


def test_offers_can_be_put_in_other_orders() -> None:
    user = a_mixed_market()
    assert shown(user) == [300_000, 310_000, 290_000]
    assert shown(user, sort="price") == [290_000, 300_000, 310_000]
    assert shown(user, sort="reliability") == [310_000, 300_000, 290_000]


def test_the_longer_the_run_the_less_a_started_hour_weighs() -> None:
    assert shown(a_mixed_market(), planned_hours=100) == [290_000, 300_000, 310_000]


@pytest.mark.parametrize(
    ("query", "prices"),
    [
        ({"markets": "spot"}, [100_000]),
        ({"markets": ["spot", "on_demand"]}, [100_000, 300_000, 310_000, 290_000]),
        ({"kinds": "vm"}, [310_000]),
        ({"min_reliability": 0.99}, [300_000, 310_000]),
        ({"min_cuda": "12.4"}, [300_000, 290_000]),
    ],
)
def test_each_filter_leaves_what_it_asks_for(query: dict[str, object], prices: list[int]) -> None:
    assert shown(a_mixed_market(), **query) == prices


def test_an_offer_says_what_its_effective_price_stands_on() -> None:
    [offer] = a_mixed_market().get("/v1/offers", query={"kinds": "vm"}).json["data"]
    assert (offer["kind"], offer["market"], offer["channel"], offer["arch"]) == (
        "vm",
        "on_demand",
        "entrypoint",
        "x86_64",
    )
    assert (offer["expected_boot_seconds"], offer["expected_restore_seconds"]) == (240, 60)
    assert 0 < offer["expected_losses_per_hour"] < 0.01
    assert offer["effective_microusd_per_hour"] > offer["price_microusd_per_hour"]


def test_if_nothing_fits_the_nearest_offers_say_what_to_loosen() -> None:
    listed = a_mixed_market().get("/v1/offers", query={"max_price_microusd_per_hour": 280_000})
    assert [(n["price_microusd_per_hour"], n["loosen"]) for n in listed.json["nearest"]] == [
        (100_000, ["markets"]),
        (300_000, ["max_price_microusd_per_hour"]),
    ]


@pytest.mark.parametrize("query", [{"sort": "name"}, {"planned_hours": 0}, {"min_cuda": "new"}])
def test_an_order_or_a_run_that_makes_no_sense_is_refused(query: dict[str, object]) -> None:
    assert a_mixed_market().get("/v1/offers", query=query).status == 400
