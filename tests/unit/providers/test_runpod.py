"""RunPod's documented bodies, each through the adapter."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest

from podferry.adapters.providers.runpod import RunpodCloud
from podferry.domain import errors
from podferry.domain.machine import PublicPort
from podferry.domain.offer import BillingRule, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import ViewState
from tests.unit.providers.support import (
    BASE_URL,
    KEY,
    STAMP,
    Answer,
    Script,
    answer,
    bodies,
    changed,
    check_raises_exactly,
    check_safe_calls_fail,
    scripted,
)

BODIES = bodies("runpod")
ID = "k3x9p0ab12cd"
CATALOGS = (BODIES["catalog_secure"], BODIES["catalog_community"])
NOTHING = {"gpus": []}
PAGE = "<html><body>502 Bad Gateway</body></html>"
a_cloud = partial(scripted, RunpodCloud)


def offers_for(wanted: Requirements, *catalogs: dict[str, Any]) -> list[Offer]:
    cloud, _ = a_cloud(*(answer(200, catalog) for catalog in catalogs or CATALOGS))
    return cloud.list_offers(wanted)


# Offers


def test_each_data_center_with_stock_and_the_community_is_an_offer() -> None:
    cloud, script = a_cloud(*(answer(200, catalog) for catalog in CATALOGS))

    offers = cloud.list_offers(Requirements(disk_gib=40))

    assert [(offer.region, offer.country) for offer in offers] == [
        ("EU-RO-1", "RO"),
        ("US-KS-2", "US"),
        (None, None),
    ]
    assert offers[0] == Offer(
        provider="runpod",
        reference={
            "gpu_id": "NVIDIA GeForce RTX 4090",
            "count": 1,
            "cloud": "SECURE",
            "data_center": "EU-RO-1",
            "min_ram_gb_per_gpu": 8,
            "min_vcpus_per_gpu": 2,
        },
        host=None,
        kind=Kind.CONTAINER,
        market=Market.ON_DEMAND,
        gpu_name="RTX 4090",
        gpu_count=1,
        vram_mib_per_gpu=24_576,
        vcpus=2.0,
        memory_mib=7_629,
        disk_gib=40,
        country="RO",
        region="EU-RO-1",
        # 43 GB of disk at 0.10 dollars for 720 hours.
        price_microusd_per_hour=690_000 + 5_973,
        billing=BillingRule(increment_seconds=1),
        cuda_max="12.11",
    )
    queries = [dict(request.url.params) for request in script.requests]
    common = {"include": "AVAILABILITY", "product": "POD", "count": "1"}
    assert queries == [common | {"cloud": "SECURE"}, common | {"cloud": "COMMUNITY"}]
    assert script.requests[0].url.path == "/v2/catalog/gpus"
    assert script.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_what_is_asked_of_the_host_is_said_by_the_offer_and_asked_for_each_gpu() -> None:
    wanted = Requirements(gpu_count=2, min_memory_gib=64, min_vcpus=15, disk_gib=10)

    offer = offers_for(wanted)[0]

    assert offer.reference["min_ram_gb_per_gpu"] == 35
    assert offer.reference["min_vcpus_per_gpu"] == 8
    assert offer.vcpus == 16.0
    assert offer.memory_mib is not None
    assert offer.memory_mib >= 64 * 1024
    assert offer.price_microusd_per_hour == 2 * 690_000 + 2_778
    assert offer.disk_gib == 18


def test_a_gpu_type_is_not_offered_in_larger_numbers_than_a_pod_may_have() -> None:
    assert [o.reference["cloud"] for o in offers_for(Requirements(gpu_count=5))] == ["SECURE"] * 2
    assert offers_for(Requirements(gpu_count=9)) == []


@pytest.mark.parametrize(
    "values",
    [
        {"availability": "NONE"},
        {"price": {"secure": None, "community": None}},
        {"maxCount": {"secure": None, "community": None}},
        {"manufacturer": "AMD"},
    ],
)
def test_what_cannot_be_rented_is_not_offered(values: dict[str, Any]) -> None:
    gpu = changed(BODIES["catalog_secure"]["gpus"][0], **values)

    assert offers_for(Requirements(), {"gpus": [gpu]}, NOTHING) == []


@pytest.mark.parametrize(
    ("data_center", "country"),
    [
        ("US-GA-2", "US"),
        ("CA-MTL-3", "CA"),
        ("EUR-IS-1", "IS"),
        ("SEA-SG-1", "SG"),
        ("AP-JP-1", "JP"),
        ("OC-AU-1", "AU"),
        ("MARS", None),
        ("EU-ANYWHERE-1", None),
    ],
)
def test_the_country_is_read_from_the_name_of_the_data_center(
    data_center: str, country: str | None
) -> None:
    places = [{"id": data_center, "name": "x", "availability": "LOW"}]
    gpu = changed(BODIES["catalog_secure"]["gpus"][0], dataCenters=places)

    (offer,) = offers_for(Requirements(), {"gpus": [gpu]}, NOTHING)

    assert (offer.region, offer.country) == (data_center, country)


def test_a_gpu_type_that_cannot_be_read_is_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = {"gpus": [{"id": "x"}, *BODIES["catalog_secure"]["gpus"]]}

    assert len(offers_for(Requirements(), broken, NOTHING)) == 2
    assert [record.message for record in caplog.records] == ["offer left out"]


# Looking


@pytest.mark.parametrize(
    ("example", "state"),
    [
        ("PROVISIONING", ViewState.PROVISIONING),
        ("STARTING", ViewState.STARTING),
        ("RUNNING", ViewState.STARTING),
        ("EXITED", ViewState.STOPPED),
        ("ERROR", ViewState.FAILED),
    ],
)
def test_every_documented_status_has_a_state(example: str, state: ViewState) -> None:
    cloud, script = a_cloud(answer(200, BODIES[example]))

    view = cloud.get(ID)

    assert (view.provider_id, view.stamp) == (ID, STAMP)
    assert (view.state, view.raw_status) == (state, example)
    assert script.requests[0].url.path == f"/v2/pods/{ID}"


def test_a_terminated_pod_that_is_still_shown_is_gone_by_the_providers_word() -> None:
    cloud, _ = a_cloud(answer(200, changed(BODIES["EXITED"], status="TERMINATED")))

    view = cloud.get(ID)

    assert (view.state, view.stamp) == (ViewState.GONE, STAMP)


def test_an_unknown_status_is_neither_alive_nor_gone() -> None:
    cloud, _ = a_cloud(answer(200, changed(BODIES["RUNNING"], status="HIBERNATED")))

    assert cloud.get(ID).state is ViewState.UNKNOWN


def test_a_running_pod_shows_ports_price_and_when_billing_began() -> None:
    cloud, _ = a_cloud(answer(200, BODIES["RUNNING"]))

    view = cloud.get(ID)

    assert view.ports == (
        PublicPort(internal=22, host="203.0.113.7", external=43210),
        PublicPort(internal=8443, host="203.0.113.7", external=43211),
    )
    assert view.price_microusd_per_hour == 690_000
    assert view.billing_started_at == datetime(2026, 11, 30, 11, 11, 40, tzinfo=UTC)


def test_ports_without_a_public_number_and_proxied_ones_are_left_out() -> None:
    ports = [
        {"private": 22, "public": None, "type": "tcp", "ip": None},
        {"private": 8888, "public": 8888, "type": "http", "ip": "100.65.0.1"},
    ]
    cloud, _ = a_cloud(answer(200, changed(BODIES["RUNNING"], runtime={"ports": ports})))

    assert cloud.get(ID).ports == ()


@pytest.mark.parametrize("runtime", [None, {}, {"ports": None}])
def test_a_pod_without_metrics_is_shown_all_the_same(runtime: Any) -> None:
    body = changed(BODIES["RUNNING"], runtime=runtime, cost="n/a", startedAt=None)
    cloud, _ = a_cloud(answer(200, body))

    view = cloud.get(ID)

    assert (view.state, view.ports, view.price_microusd_per_hour) == (ViewState.STARTING, (), None)


def test_a_404_of_runpods_own_shows_no_stamp_and_one_of_a_proxy_shows_nothing() -> None:
    cloud, _ = a_cloud(answer(404, BODIES["error_404"]), answer(404, PAGE))

    view = cloud.get(ID)

    assert (view.state, view.stamp) == (ViewState.GONE, None)
    with pytest.raises(errors.ProviderBusyError, match="in front of runpod"):
        cloud.get(ID)


def test_find_follows_the_cursor_to_the_last_page() -> None:
    pod = BODIES["RUNNING"]
    other = changed(pod, name=f"{STAMP[:-1]}z", id="other")
    more = {"hasNextPage": True, "nextCursor": "c+1/="}
    last = {"hasNextPage": False, "nextCursor": None}
    cloud, script = a_cloud(
        answer(200, {"pods": [pod, other], "pagination": more}),
        answer(200, {"pods": [changed(pod, id="double")], "pagination": last}),
    )

    assert [view.provider_id for view in cloud.find(STAMP)] == [ID, "double"]
    assert [dict(request.url.params) for request in script.requests] == [
        {"limit": "1000"},
        {"limit": "1000", "cursor": "c+1/="},
    ]


def test_a_list_without_pages_is_complete() -> None:
    cloud, _ = a_cloud(answer(200, {"pods": [BODIES["RUNNING"]]}))

    assert len(cloud.find(STAMP)) == 1


@pytest.mark.parametrize(
    "pages",
    [
        [{"pods": [], "pagination": {"hasNextPage": True, "nextCursor": None}}],
        [{"pods": [], "pagination": {"hasNextPage": True, "nextCursor": "same"}}] * 2,
        [{"pods": [{"name": STAMP}]}],
        [{"data": []}],
        [[]],
        [PAGE],
    ],
)
def test_a_list_that_cannot_be_completed_is_not_taken_for_an_empty_one(pages: list[Any]) -> None:
    cloud, _ = a_cloud(*(answer(200, page) for page in pages))

    with pytest.raises(errors.ProviderBusyError):
        cloud.find(STAMP)


# Giving up


def test_giving_up_is_one_call_whose_answer_has_no_body() -> None:
    cloud, script = a_cloud(answer(204))

    cloud.give_up(ID)

    assert [(each.method, each.url.path) for each in script.requests] == [
        ("DELETE", f"/v2/pods/{ID}")
    ]


def test_giving_up_what_is_not_there_is_success() -> None:
    cloud, _ = a_cloud(answer(404, BODIES["error_404"]))

    cloud.give_up(ID)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(409, BODIES["error_409"]), errors.NotGoneYetError),
        (answer(404, PAGE), errors.ProviderBusyError),
        (answer(500), errors.ProviderBusyError),
        (answer(401, BODIES["error_401"]), errors.KeyRefusedError),
    ],
)
def test_giving_up_that_fails_says_how(given: Answer, error: type[Exception]) -> None:
    cloud, _ = a_cloud(given)

    check_raises_exactly(error, lambda: cloud.give_up(ID))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(401, BODIES["error_401"]), errors.KeyRefusedError),
        (answer(400, {"title": "Bad Request", "status": 400}), errors.ProviderRefusedError),
        (answer(400, PAGE), errors.ProviderBusyError),
        (answer(429, BODIES["error_429"], retry_after="7"), errors.ProviderBusyError),
        (answer(502, PAGE), errors.ProviderBusyError),
        (httpx.ReadTimeout("late"), errors.ProviderBusyError),
    ],
)
def test_safe_calls_tell_busy_from_refused(given: Answer, error: type[Exception]) -> None:
    check_safe_calls_fail(a_cloud, given, ID, error)


def test_a_rate_limit_says_when_to_come_back() -> None:
    cloud, _ = a_cloud(answer(429, BODIES["error_429"], retry_after="7"))

    with pytest.raises(errors.ProviderBusyError) as raised:
        cloud.get(ID)

    assert raised.value.retry_after_seconds == 7


def test_ids_cannot_leave_their_path() -> None:
    cloud, script = a_cloud(answer(404, BODIES["error_404"]))

    cloud.get("../catalog/gpus")

    assert script.requests[0].url.raw_path == b"/v2/pods/..%2Fcatalog%2Fgpus"


def test_the_version_in_the_address_is_optional() -> None:
    script = Script([answer(200, {"pods": []})])

    RunpodCloud(KEY, f"{BASE_URL}/v2/", script.client).find(STAMP)

    assert script.requests[0].url.path == "/v2/pods"
