"""What `ports/gpu_cloud.py` promises, held against every adapter over its simulated provider."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from podferry.adapters.providers.registry import ProviderAdapter
from podferry.domain import errors
from podferry.domain.offer import Channel
from podferry.ports.gpu_cloud import ViewState
from tests.contract.providers.machines import (
    OVER,
    WANTED,
    a_launch,
    cheapest,
    end,
    rented_and_booted,
    wait_for,
)
from tests.contract.providers.simulation import Simulation, wait_until

NOT_UP_YET = {ViewState.PROVISIONING, ViewState.PULLING, ViewState.STARTING}
Call = Callable[[ProviderAdapter], object]

SAFE_CALLS: dict[str, Call] = {
    "list_offers": lambda cloud: cloud.list_offers(WANTED),
    "find": lambda cloud: cloud.find("pf-00000000-0000000000000"),
    "list_machines": lambda cloud: cloud.list_machines(),
    "get": lambda cloud: cloud.get("27182818"),
    "give_up": lambda cloud: cloud.give_up("27182818"),
}


def test_offers_say_what_they_are_and_can_be_rented(cloud: ProviderAdapter) -> None:
    offers = cloud.list_offers(WANTED)

    assert offers
    assert len({offer.id for offer in offers}) == len(offers)
    # Some hosts are in no place that their provider names.
    assert any(offer.country or offer.region for offer in offers)
    for offer in offers:
        assert offer.provider == cloud.name
        assert offer.price_microusd_per_hour > 0
        assert offer.gpu_name
        assert offer.country is None or re.fullmatch("[A-Z]{2}", offer.country)
        assert offer.vram_mib_per_gpu
        assert offer.memory_mib
        assert offer.disk_gib >= WANTED.disk_gib
    assert cloud.create(replace(a_launch(cloud), offer=offers[0]))


def test_a_rented_machine_is_found_by_its_stamp_and_by_its_id(cloud: ProviderAdapter) -> None:
    launch = a_launch(cloud)

    made = cloud.create(launch)

    assert [view.provider_id for view in cloud.find(launch.stamp)] == [made]
    view = cloud.get(made)
    assert (view.provider_id, view.stamp) == (made, launch.stamp)
    assert view.state in NOT_UP_YET


def test_the_contract_costs_what_the_offer_said(cloud: ProviderAdapter) -> None:
    launch = a_launch(cloud)

    made = cloud.create(launch)

    if not cloud.traits.shows_price:
        assert cloud.get(made).price_microusd_per_hour is None
        return
    wait_until(lambda: cloud.get(made).price_microusd_per_hour is not None, "a price is shown")
    price = cloud.get(made).price_microusd_per_hour
    assert price is not None
    assert 0 <= launch.offer.price_microusd_per_hour - price <= 1


def test_case_p7_a_contract_that_costs_more_shows_it(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    if not cloud.traits.shows_price:
        pytest.skip(f"{simulation.provider} has public prices and shows none in a contract")
    simulation.set_faults(price_bump=1.5)
    launch = a_launch(cloud)

    made = cloud.create(launch)

    wait_until(lambda: cloud.get(made).price_microusd_per_hour is not None, "a price is shown")
    price = cloud.get(made).price_microusd_per_hour
    assert price is not None
    assert price > launch.offer.price_microusd_per_hour


def test_the_bootstrap_runs_with_its_environment_and_ports_are_mapped(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    values = {
        "PF_TOKEN": "pfb_one_time",
        "PF_BUNDLE_URL": "https://bucket.test/a.tar.gz?X=" + "s%2F" * 150,
        "PF_CA": "-----BEGIN-----\nA='$B' \"`c`\"\\\n-----END-----\n",
    }
    script = 'printf "%s|%s|%s|up" "$PF_TOKEN" "$PF_BUNDLE_URL" "$PF_CA" >/said; exec sleep 3600'

    made = rented_and_booted(cloud, replace(a_launch(cloud, script), environment=values))

    wait_until(lambda: "|up" in simulation.read(made, "/said"), "the bootstrap ran")
    assert simulation.read(made, "/said") == "|".join([*values.values(), "up"])
    if cheapest(cloud).channel is not Channel.SSH:
        wait_until(lambda: len(cloud.get(made).ports) == 2, "both ports are mapped")
        ports = cloud.get(made).ports
        assert [port.internal for port in ports] == [22, 8443]
        assert all(port.host and port.external for port in ports)
    view = cloud.get(made)
    assert view.state is ViewState.STARTING
    if not cloud.traits.shows_billing_start:
        assert view.billing_started_at is None
        return
    assert view.billing_started_at is not None
    assert abs(view.billing_started_at.timestamp() - simulation.now()) < 10


def test_billing_start_stays_the_same_over_hours(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    if not cloud.traits.shows_billing_start:
        pytest.skip(f"{cloud.name} does not say when a machine was made")
    made = cloud.create(a_launch(cloud))
    wait_until(lambda: cloud.get(made).billing_started_at is not None, "billing began")
    first = cloud.get(made).billing_started_at

    simulation.skip(3 * 3600)

    second = cloud.get(made).billing_started_at
    assert first is not None
    assert second is not None
    assert abs((second - first).total_seconds()) < 1


@pytest.mark.parametrize("fault", ["create_500_but_exists", "create_timeout"])
def test_case_p1_a_create_cut_off_is_unknown_and_the_one_machine_is_found(
    simulation: Simulation, cloud: ProviderAdapter, fault: str
) -> None:
    launch = a_launch(cloud)
    simulation.set_faults(**{fault: 1})

    with pytest.raises(errors.OutcomeUnknownError):
        cloud.create(launch)

    found = [view.provider_id for view in cloud.find(launch.stamp)]
    assert found == [each["id"] for each in simulation.instances()]
    assert len(found) == 1


def test_a_create_that_broke_is_unknown_even_if_nothing_was_made(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    launch = a_launch(cloud)
    simulation.set_faults(create_500_not_created=1)

    with pytest.raises(errors.OutcomeUnknownError):
        cloud.create(launch)

    assert cloud.find(launch.stamp) == []


def test_an_offer_that_was_taken_meanwhile_is_gone_and_nothing_was_made(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    launch = a_launch(cloud)
    simulation.set_faults(offer_gone=1)

    with pytest.raises(errors.OfferGoneError):
        cloud.create(launch)

    assert simulation.instances() == []


def test_without_capacity_there_are_no_offers_and_an_old_one_does_not_help(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    launch = a_launch(cloud)
    simulation.set_faults(no_capacity=True)

    if simulation.shows_stock():
        assert cloud.list_offers(WANTED) == []
    with pytest.raises(errors.NoCapacityError):
        cloud.create(launch)
    assert simulation.instances() == []


def test_without_money_a_create_is_refused(simulation: Simulation, cloud: ProviderAdapter) -> None:
    launch = a_launch(cloud)
    simulation.set_balance(0)

    with pytest.raises(errors.ProviderRefusedError):
        cloud.create(launch)

    assert simulation.instances() == []


@pytest.mark.parametrize("name", SAFE_CALLS)
def test_a_wrong_key_is_refused_everywhere(simulation: Simulation, name: str) -> None:
    simulation.set_faults(unauthorised=True)

    with pytest.raises(errors.ProviderRefusedError):
        SAFE_CALLS[name](simulation.adapter("wrong"))


def test_a_wrong_key_makes_nothing(simulation: Simulation, cloud: ProviderAdapter) -> None:
    launch = a_launch(cloud)

    with pytest.raises(errors.ProviderRefusedError):
        simulation.adapter("wrong").create(launch)

    assert simulation.instances() == []


@pytest.mark.parametrize("name", SAFE_CALLS)
def test_too_many_requests_is_busy(
    simulation: Simulation, cloud: ProviderAdapter, name: str
) -> None:
    simulation.set_faults(rate_limit=1)

    with pytest.raises(errors.ProviderBusyError) as raised:
        SAFE_CALLS[name](cloud)

    assert raised.value.retry_after_seconds > 0


def test_a_create_that_came_too_often_is_busy_and_made_nothing(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    launch = a_launch(cloud)
    simulation.set_faults(rate_limit=1)

    with pytest.raises(errors.ProviderBusyError):
        cloud.create(launch)

    assert simulation.instances() == []


def test_a_machine_given_up_is_gone_and_giving_up_again_is_success(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    made = cloud.create(a_launch(cloud))
    end(cloud, made)

    cloud.give_up(made)

    assert cloud.get(made).state is ViewState.GONE
    assert simulation.instances() == []


def test_what_never_existed_is_gone_and_giving_it_up_is_success(cloud: ProviderAdapter) -> None:
    assert cloud.get("27182818").state is ViewState.GONE
    cloud.give_up("27182818")


def test_what_the_provider_does_not_have_is_shown_without_a_stamp(cloud: ProviderAdapter) -> None:
    assert cloud.get("27182818").stamp is None
    launch = a_launch(cloud)
    made = cloud.create(launch)
    end(cloud, made)

    view, is_listed = cloud.get(made), bool(cloud.find(launch.stamp))

    assert view.state in OVER
    assert view.stamp == (launch.stamp if is_listed else None)


def test_gone_machines_are_listed_as_the_traits_say(cloud: ProviderAdapter) -> None:
    launch = a_launch(cloud)
    end(cloud, cloud.create(launch))

    states = [view.state for view in cloud.find(launch.stamp)]

    assert set(states) <= {ViewState.GONE}


def test_case_p3_a_delete_that_fails_can_be_repeated(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    made = cloud.create(a_launch(cloud))
    wait_for(cloud, made, ViewState.STARTING)
    simulation.set_faults(delete_fails=1)

    with pytest.raises(errors.ProviderBusyError):
        cloud.give_up(made)
    assert cloud.get(made).state is not ViewState.GONE

    end(cloud, made)
    assert cloud.get(made).state is ViewState.GONE


def test_case_p3_a_delete_that_only_says_ok_leaves_a_machine_that_is_not_gone(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    made = cloud.create(a_launch(cloud))
    wait_for(cloud, made, ViewState.STARTING)
    simulation.set_faults(delete_says_ok_but_stands=1)

    cloud.give_up(made)

    assert cloud.get(made).state is not ViewState.GONE
    end(cloud, made)


def test_case_p15_giving_up_while_it_starts_is_done_or_not_yet(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    simulation.set_faults(slow_boot_seconds=2)
    launch = a_launch(cloud)
    made = cloud.create(launch)
    assert cloud.get(made).state is ViewState.PROVISIONING

    if launch.offer.can_cancel_starting:
        cloud.give_up(made)
        assert cloud.get(made).state is ViewState.GONE
    else:
        with pytest.raises(errors.NotGoneYetError):
            cloud.give_up(made)
        assert cloud.get(made).state is ViewState.PROVISIONING


def test_case_p9_a_young_machine_may_be_missing_from_lists_but_not_from_get(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    simulation.set_faults(listing_lag_seconds=60)
    launch = a_launch(cloud)

    made = cloud.create(launch)

    assert cloud.find(launch.stamp) == []
    assert cloud.get(made).state in NOT_UP_YET
    simulation.skip(61)
    assert [view.provider_id for view in cloud.find(launch.stamp)] == [made]


def test_find_reads_every_page_and_sees_doubles(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    if simulation.has_fault("page_size"):
        simulation.set_faults(page_size=1)
    launch = a_launch(cloud)
    other = cloud.create(a_launch(cloud))
    doubles = {cloud.create(launch), cloud.create(replace(launch, offer=cheapest(cloud)))}

    assert {view.provider_id for view in cloud.find(launch.stamp)} == doubles
    assert other not in doubles


def test_the_whole_list_has_every_machine_with_its_stamp_on_every_page(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    if simulation.has_fault("page_size"):
        simulation.set_faults(page_size=1)
    launches = [a_launch(cloud) for _ in range(3)]
    made = {cloud.create(launch): launch.stamp for launch in launches}

    listed = {view.provider_id: view.stamp for view in cloud.list_machines()}
    assert made.items() <= listed.items()
    for provider_id in made:
        end(cloud, provider_id)
    standing = {v.provider_id for v in cloud.list_machines() if v.state not in OVER}
    assert not made.keys() & standing
