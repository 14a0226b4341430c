"""Which offers fit, what they really cost, and what comes closest if none fits."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podferry.domain.experience import Experience, Outlook, experience_id
from podferry.domain.offer import BillingRule, HostFailure, Kind, Market, Offer, Requirements
from podferry.domain.placement import (
    choose,
    cuda_version,
    effective_microusd,
    effective_microusd_per_hour,
    missed_by,
    takes_cuda,
)
from tests.unit.domain.machines import a_ready_machine
from tests.unit.http.clouds import an_offer

NOW = datetime(2026, 11, 30, tzinfo=UTC)
FULL_HOURS = BillingRule(increment_seconds=3600, minimum_seconds=3600)


def seen(offer: Offer, **measured: object) -> Experience:
    return Experience(
        id=experience_id(offer),
        account_id="",
        created_at=NOW,
        provider=offer.provider,
        kind=offer.kind,
        market=offer.market,
        **measured,  # type: ignore[arg-type]
    )


def outlook(*known: Experience, hours: int = 1) -> Outlook:
    return Outlook(hours * 3600, {one.id: one for one in known})


@pytest.mark.parametrize(
    ("change", "wanted", "missed"),
    [
        ({"market": Market.SPOT}, {}, ("markets",)),
        ({"market": Market.SPOT}, {"markets": (Market.ON_DEMAND, Market.SPOT)}, ()),
        ({}, {"markets": (Market.SPOT,)}, ("markets",)),
        ({}, {"kinds": (Kind.VM,)}, ("kinds",)),
        ({"kind": Kind.VM}, {"kinds": (Kind.VM, Kind.BAREMETAL)}, ()),
        ({"reliability": 0.9}, {"min_reliability": 0.95}, ("min_reliability",)),
        ({"reliability": None}, {"min_reliability": 0.1}, ("min_reliability",)),
        ({"reliability": 0.95}, {"min_reliability": 0.95}, ()),
        ({"cuda_max": "12.2"}, {"min_cuda": "12.4"}, ("min_cuda",)),
        ({"cuda_max": "12.10"}, {"min_cuda": "12.4"}, ()),
        ({"cuda_max": None}, {"min_cuda": "12.4"}, ()),
        ({"arch": "aarch64"}, {"arch": "x86_64"}, ("arch",)),
        ({"arch": "aarch64"}, {}, ()),
        (
            {"gpu_count": 2},
            {"gpu_names": ("L4",), "countries": ("US",)},
            ("gpu_names", "gpu_count", "countries"),
        ),
    ],
)
def test_an_offer_names_every_requirement_that_it_misses(
    change: dict[str, object], wanted: dict[str, object], missed: tuple[str, ...]
) -> None:
    offer = replace(an_offer(), **change)  # type: ignore[arg-type]
    assert missed_by(offer, Requirements(**wanted)) == missed  # type: ignore[arg-type]


def test_a_full_hours_provider_pays_a_second_hour_for_the_boot_of_the_first() -> None:
    by_hour = replace(an_offer(price=360_000), billing=FULL_HOURS)
    by_second = an_offer(price=360_000)
    assert effective_microusd(by_hour, outlook()) >= 720_000
    assert 360_000 < effective_microusd(by_second, outlook()) < 400_000


def test_the_longer_the_run_the_less_a_boot_weighs() -> None:
    offer = an_offer(price=360_000)
    per_hour = [effective_microusd_per_hour(offer, outlook(hours=h)) for h in (1, 10, 100)]
    assert per_hour == sorted(per_hour, reverse=True)
    assert per_hour[-1] < 362_000


def test_measured_boots_take_the_place_of_the_guess() -> None:
    offer = an_offer(price=3_600_000)
    slow = seen(offer, boots=(900, 900, 900), restores=(300,))
    assert effective_microusd(offer, outlook(slow)) > effective_microusd(offer, outlook()) + 900_000
    assert outlook(slow).of(offer).boot_seconds == 900
    assert outlook(slow).of(replace(offer, kind=Kind.VM)).boot_seconds == 240


def test_spot_that_is_taken_away_all_the_time_is_dearer_than_it_looks() -> None:
    spot = replace(an_offer(price=350_000), market=Market.SPOT)
    steady = an_offer(price=360_000)
    both = Requirements(markets=(Market.ON_DEMAND, Market.SPOT))
    calm = seen(spot, served_seconds=1000 * 3600, losses=1)
    wild = seen(spot, served_seconds=1000 * 3600, losses=2000)
    first = [choose([spot, steady], both, (), NOW, outlook(e)).offers[0] for e in (calm, wild)]
    assert first == [spot, steady]


def test_a_few_lucky_hours_do_not_prove_that_nothing_is_ever_lost() -> None:
    spot = replace(an_offer(), market=Market.SPOT)
    lucky = seen(spot, served_seconds=3 * 3600, losses=0)
    assert outlook(lucky).of(spot).losses_per_hour > 0.04
    proven = seen(spot, served_seconds=100_000 * 3600, losses=0)
    assert outlook(proven).of(spot).losses_per_hour < 0.0001


@given(
    price=st.integers(1, 10**8),
    hours=st.integers(1, 8760),
    increment=st.sampled_from([1, 60, 3600]),
    market=st.sampled_from(list(Market)),
    losses=st.integers(0, 100),
)
def test_no_run_costs_less_than_its_hours(
    price: int, hours: int, increment: int, market: Market, losses: int
) -> None:
    rule = BillingRule(increment_seconds=increment)
    offer = replace(an_offer(price=price), billing=rule, market=market)
    known = seen(offer, losses=losses, served_seconds=3600)
    assert effective_microusd(offer, outlook(known, hours=hours)) >= price * hours


def test_what_comes_closest_is_named_with_what_to_loosen() -> None:
    dear = an_offer(price=900_000)
    dearer = an_offer(price=950_000)
    other_gpu = an_offer(price=100_000, gpu="L4")
    far_off = replace(an_offer(price=1, gpu="L4"), country="US")
    wanted = Requirements(
        gpu_names=("RTX 4090",), countries=("DE",), max_price_microusd_per_hour=500_000
    )
    found = choose([far_off, dearer, other_gpu, dear], wanted, (), NOW)
    assert [(miss.offer, miss.loosen) for miss in found.nearest] == [
        (other_gpu, ("gpu_names",)),
        (dear, ("max_price_microusd_per_hour",)),
        (far_off, ("gpu_names", "countries")),
    ]
    assert found.ruled_out == {"gpu_names": 2, "max_price_microusd_per_hour": 2}


def test_where_something_fits_nothing_else_is_offered() -> None:
    found = choose([an_offer(), an_offer(gpu="L4")], Requirements(gpu_names=("L4",)), (), NOW)
    assert (len(found.offers), found.nearest) == (1, ())


def test_a_measurement_is_forgotten_after_twenty_others() -> None:
    known = seen(an_offer())
    for number in range(25):
        known = known.with_start(a_ready_machine(boot=number, restore=2 * number))
    assert known.boots == tuple(range(5, 25))
    assert known.restores == tuple(range(10, 50, 2))


@pytest.mark.parametrize(
    ("newest", "wanted", "takes"),
    [
        ("12.4", "12.4", True),
        ("12.10", "12.9", True),
        ("12.2", "12.4", False),
        ("13.0", "12.8", True),
        ("11.8", "12.0", False),
        (None, "12.0", False),
        (None, None, True),
        ("unreadable", "12.0", False),
    ],
)
def test_a_driver_takes_what_was_built_for_it_or_before_it(
    newest: str | None, wanted: str | None, takes: bool
) -> None:
    assert takes_cuda(newest, wanted) is takes


def test_versions_are_numbers() -> None:
    assert cuda_version("12.10") > cuda_version("12.9") > cuda_version("12") > cuda_version("")


def test_a_host_that_failed_the_pod_is_left_out_for_an_hour() -> None:
    failure = HostFailure(provider="vastai", host="host-1", at=NOW)
    assert choose([an_offer()], Requirements(), [failure], NOW).offers == ()
    later = NOW + timedelta(hours=1)
    assert len(choose([an_offer()], Requirements(), [failure], later).offers) == 1
