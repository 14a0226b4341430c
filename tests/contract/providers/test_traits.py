"""What adapters declare of their providers, held against what they do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podferry.adapters.providers.registry import EVERY_CALL, ProviderAdapter
from podferry.domain.errors import ProviderRefusedError
from podferry.domain.offer import Channel, Kind, Market
from podferry.ports.gpu_cloud import GpuCloud
from tests.contract.providers.machines import WANTED, a_launch, cheapest
from tests.contract.providers.simulation import Simulation

SURELY_FITS = 64 * 1024


def bootstrap_limit(cloud: ProviderAdapter) -> int:
    """Of what `a_launch` rents."""
    return cloud.traits.boots[cheapest(cloud).kind].bootstrap_limit


def test_a_machine_that_is_rented_bare_is_no_container(cloud: ProviderAdapter) -> None:
    assert all(
        kind is not Kind.CONTAINER
        for kind, boot in cloud.traits.boots.items()
        if boot.channel is Channel.SSH
    )


def test_offers_are_of_the_kinds_and_markets_that_the_traits_name(cloud: ProviderAdapter) -> None:
    offers = cloud.list_offers(replace(WANTED, markets=tuple(Market)))

    assert {offer.kind for offer in offers} <= set(cloud.traits.boots)
    assert {offer.market for offer in offers} == set(cloud.traits.markets)


def test_every_offer_is_billed_started_and_ended_as_the_traits_say(cloud: ProviderAdapter) -> None:
    traits = cloud.traits

    for offer in cloud.list_offers(replace(WANTED, markets=tuple(Market))):
        is_spot = offer.market is Market.SPOT
        assert offer.billing == traits.billing
        assert offer.channel is traits.boots[offer.kind].channel
        assert offer.can_cancel_starting is traits.can_cancel_starting
        assert offer.reclaim_notice_seconds == (traits.reclaim_notice_seconds if is_spot else None)


def test_a_bootstrap_over_the_limit_is_refused_and_nothing_is_made(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    limit = bootstrap_limit(cloud)

    with pytest.raises(ProviderRefusedError, match=str(limit)):
        cloud.create(a_launch(cloud, ":" * (limit + 1)))

    assert simulation.instances() == []


def test_a_bootstrap_of_half_the_limit_is_taken(cloud: ProviderAdapter) -> None:
    size = min(bootstrap_limit(cloud) // 2, SURELY_FITS)

    assert cloud.create(a_launch(cloud, "exec sleep 3600".ljust(size)))


def test_intervals_are_declared_for_calls_of_the_port(cloud: ProviderAdapter) -> None:
    calls = {name for name in vars(GpuCloud) if not name.startswith("_")}

    assert set(cloud.min_interval_seconds) <= calls | {EVERY_CALL}
    assert all(seconds > 0 for seconds in cloud.min_interval_seconds.values())
