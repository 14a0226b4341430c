"""Fluence's virtual machines and bare metal, by their documented bodies."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from podferry.adapters.providers.fluence import FluenceCloud
from podferry.domain import errors
from podferry.domain.machine import Login
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import ViewState
from tests.unit.providers.support import (
    BASE_URL,
    STAMP,
    a_launch,
    an_offer,
    answer,
    bodies,
    changed,
    check_refused_unsent,
    scripted,
)

BODIES = bodies("fluence")
ID = "c0ffee00-0000-4000-8000-000000000002"
LISTS = (("vms", Kind.VM), ("baremetal", Kind.BAREMETAL))
KEY = "ssh-ed25519 AAAA"
a_cloud = partial(scripted, FluenceCloud)


def an_option(collection: str) -> Offer:
    reference = {"collection": collection, "plan_id": "0c7f-opt", "os_image": "Ubuntu"}
    return an_offer("fluence", reference, kind=dict(LISTS)[collection], channel=Channel.SSH)


@pytest.mark.parametrize(("collection", "kind"), LISTS)
def test_an_option_becomes_an_offer_that_is_rented_bare(collection: str, kind: Kind) -> None:
    cloud, script = a_cloud(answer(200, BODIES["machine_options"]))

    (offer,) = cloud.list_offers(Requirements(kinds=(kind,)))

    assert offer == Offer(
        provider="fluence",
        reference={
            "collection": collection,
            "os_image": "ubuntu22.04_cuda12.4_shade_os",
            "plan_id": "0c7f-opt",
        },
        host=None,
        kind=kind,
        market=Market.ON_DEMAND,
        gpu_name="A100 PCIe",
        gpu_count=1,
        vram_mib_per_gpu=81_920,
        vcpus=14.0,
        memory_mib=95_232,
        disk_gib=580,
        country="US",
        region="us-central-3",
        price_microusd_per_hour=1_100_000,
        billing=BillingRule(increment_seconds=3600, minimum_seconds=3600),
        channel=Channel.SSH,
        can_cancel_starting=False,
    )
    assert str(script.requests[0].url) == f"{BASE_URL}/gpu/plans/{collection}"


def test_whoever_wants_anything_is_shown_all_three_kinds() -> None:
    cloud, _ = a_cloud(
        answer(200, BODIES["plans"]),
        answer(200, BODIES["machine_options"]),
        answer(200, BODIES["machine_options"]),
    )

    kinds = [offer.kind for offer in cloud.list_offers(Requirements())]

    assert kinds == [Kind.CONTAINER, Kind.CONTAINER, Kind.VM, Kind.BAREMETAL]


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["Ubuntu Server 22.04", "Ubuntu Server 24.04"], "Ubuntu Server 24.04"),
        (["Debian 12", "Ubuntu Server 22.04"], "Ubuntu Server 22.04"),
        (["Ubuntu 24.04", "ubuntu22.04_cuda12.4"], "ubuntu22.04_cuda12.4"),
        (["ubuntu22.04_cuda12.4", "Debian 12 Docker"], "Debian 12 Docker"),
    ],
)
def test_the_image_that_most_likely_has_docker_and_the_driver_is_taken(
    names: list[str], chosen: str
) -> None:
    body = changed(BODIES["machine_options"])
    body["data"][0]["availability_by_number"][0]["options"][0]["os_options"] = names
    cloud, _ = a_cloud(answer(200, body))

    (offer,) = cloud.list_offers(Requirements(kinds=(Kind.VM,)))

    assert offer.reference["os_image"] == chosen


@pytest.mark.parametrize(
    ("location", "country"), [("us-central-3", "US"), ("eu-north-1", None), ("oslo", None)]
)
def test_a_data_centre_is_in_the_country_that_its_name_begins_with(
    location: str, country: str | None
) -> None:
    body = changed(BODIES["machine_options"])
    body["data"][0]["availability_by_number"][0]["options"][0]["location"] = location
    cloud, _ = a_cloud(answer(200, body))

    (offer,) = cloud.list_offers(Requirements(kinds=(Kind.VM,)))

    assert (offer.country, offer.region) == (country, location)


@pytest.mark.parametrize(("collection", "_kind"), LISTS)
def test_a_create_sends_the_key_and_nothing_of_the_bootstrap(collection: str, _kind: Kind) -> None:
    cloud, script = a_cloud(answer(200, BODIES["deploy_response"]))

    made = cloud.create(a_launch(an_option(collection), ssh_public_key=KEY))

    assert made == f"{collection}.{BODIES['deploy_response']['instance_id']}"
    assert str(script.requests[0].url) == f"{BASE_URL}/gpu/instances/{collection}"
    assert script.body() == {
        "plan_id": "0c7f-opt",
        "name": STAMP,
        "ssh_key": KEY,
        "os_image": "Ubuntu",
    }


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"ssh_public_key": None}, "without an SSH key"),
        ({"stamp": "pf-0a1b2c3d-0123456789abcd"}, "1 to 25 characters"),
        ({"bootstrap": ":" * 131_072}, "at most 131071"),
        ({"image": "no image"}, "not the name of an image"),
    ],
)
def test_what_could_not_be_brought_is_refused_before_it_costs_anything(
    values: dict[str, Any], says: str
) -> None:
    launch = replace(a_launch(an_option("vms"), ssh_public_key=KEY), **values)

    check_refused_unsent(*a_cloud(), launch, says)


def test_a_machine_that_is_up_shows_where_it_lets_us_in() -> None:
    cloud, script = a_cloud(answer(200, BODIES["vm_ACTIVE"]))

    view = cloud.get(f"vms.{ID}")

    assert str(script.requests[0].url) == f"{BASE_URL}/gpu/instances/vms/{ID}"
    assert view.login == Login(host="203.0.113.9", port=22, user="ubuntu")
    assert (view.state, view.raw_status) == (ViewState.STARTING, "ACTIVE")
    assert (view.provider_id, view.stamp, view.ports) == (f"vms.{ID}", STAMP, ())
    assert view.price_microusd_per_hour == 1_100_000
    assert view.billing_started_at is not None
    assert view.billing_started_at.isoformat() == "2026-11-30T11:14:00+00:00"


@pytest.mark.parametrize(
    ("connection", "login"),
    [
        ("ssh -p 2222 root@host.test", Login(host="host.test", port=2222, user="root")),
        ("ssh root@host.test -p 2222", Login(host="host.test", port=2222, user="root")),
        ("ssh ubuntu@2001:db8::1", Login(host="2001:db8::1", port=22, user="ubuntu")),
        ("ssh -o ProxyCommand=evil ubuntu@host", None),
        ("", None),
        (None, None),
    ],
)
def test_a_login_is_read_from_a_command_and_from_nothing_else(
    connection: str | None, login: Login | None
) -> None:
    cloud, _ = a_cloud(answer(200, changed(BODIES["vm_ACTIVE"], ssh_connection=connection)))

    assert cloud.get(f"vms.{ID}").login == login


def test_a_machine_that_is_made_shows_nothing_yet() -> None:
    cloud, _ = a_cloud(answer(200, BODIES["vm_INITIALIZED"]))

    view = cloud.get(f"baremetal.{ID}")

    assert (view.state, view.login, view.billing_started_at) == (ViewState.PROVISIONING, None, None)


def test_the_whole_list_has_all_kinds_each_with_its_place() -> None:
    cloud, script = a_cloud(
        answer(200, [BODIES["container_ACTIVE"]]),
        answer(200, [BODIES["vm_ACTIVE"]]),
        answer(200, {"data": [BODIES["vm_ACTIVE"]]}),
    )

    found = [view.provider_id for view in cloud.find(STAMP)]

    assert found == [BODIES["container_ACTIVE"]["id"], f"vms.{ID}", f"baremetal.{ID}"]
    paths = [request.url.path for request in script.requests]
    assert paths == ["/gpu/instances/", "/gpu/instances/vms", "/gpu/instances/baremetal"]


def test_a_list_that_one_kind_is_missing_from_is_none() -> None:
    cloud, _ = a_cloud(answer(200, []), answer(200, []), answer(500))

    with pytest.raises(errors.ProviderBusyError):
        cloud.list_machines()


def test_only_an_active_machine_can_be_ended_and_a_second_end_is_success() -> None:
    refusal = answer(400, BODIES["error_400_terminate_not_active"])
    cloud, script = a_cloud(refusal, answer(200, BODIES["vm_INITIALIZED"]))
    with pytest.raises(errors.NotGoneYetError, match="INITIALIZED"):
        cloud.give_up(f"vms.{ID}")
    assert script.requests[0].url.path == f"/gpu/instances/vms/{ID}"

    ended = changed(BODIES["vm_ACTIVE"], status="ENDED")
    cloud, _ = a_cloud(refusal, answer(200, ended))
    cloud.give_up(f"vms.{ID}")
