"""Vast.ai's documented bodies, each through the adapter; creating has a file of its own."""

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest

from podferry.adapters.providers.vastai import VastCloud
from podferry.domain import errors
from podferry.domain.machine import PublicPort
from podferry.domain.offer import BillingRule, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import ViewState
from tests.unit.providers.support import (
    KEY,
    STAMP,
    Answer,
    answer,
    bodies,
    changed,
    check_raises_exactly,
    check_safe_calls_fail,
    scripted,
)

BODIES = bodies("vastai")
ID = "27182818"
a_cloud = partial(scripted, VastCloud)


def an_instance(example: str = "running", **values: Any) -> dict[str, Any]:
    return {"instances": changed(BODIES[example]["instances"], **values)}


def test_an_offer_is_priced_with_the_asked_for_disk() -> None:
    cloud, script = a_cloud(answer(200, BODIES["offers"]))

    offers = cloud.list_offers(Requirements(disk_gib=60))

    assert offers == [
        Offer(
            provider="vastai",
            reference={"ask_id": "31415926"},
            host="20111",
            kind=Kind.CONTAINER,
            market=Market.ON_DEMAND,
            gpu_name="RTX 4090",
            gpu_count=1,
            vram_mib_per_gpu=24_564,
            vcpus=16.0,
            memory_mib=64_250,
            disk_gib=756,
            country="SE",
            region="Sweden",
            # 60 GiB are 65 GB: 0.35 + 65 * 0.15 / 720 dollars, rounded up.
            price_microusd_per_hour=363_542,
            billing=BillingRule(increment_seconds=1, minimum_seconds=0),
            reliability=0.9965,
            cuda_max="12.8",
        )
    ]
    assert script.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_the_search_asks_for_on_demand_machines_that_fit() -> None:
    cloud, script = a_cloud(answer(200, {"offers": []}))

    cloud.list_offers(
        Requirements(
            gpu_names=("A100 SXM", "RTX 4090"), gpu_count=2, disk_gib=60, countries=("SE",)
        )
    )

    body = script.body()
    assert (script.requests[0].method, script.requests[0].url.path) == ("POST", "/api/v0/bundles/")
    assert body["type"] == "ondemand"
    assert body["gpu_name"] == {"in": ["A100 SXM4", "RTX 4090"]}
    assert body["num_gpus"] == {"eq": 2}
    assert body["allocated_storage"] == 65
    assert body["disk_space"] == {"gte": 65}
    assert body["geolocation"] == {"in": ["SE"]}
    assert body["rentable"] == {"eq": True}


def test_offers_that_cannot_be_read_or_run_the_agent_are_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    offer = BODIES["offers"]["offers"][0]
    broken = {"id": 1}
    arm = changed(offer, id=2, cpu_arch="arm64")
    amd = changed(offer, id=3, gpu_arch="amd")
    cloud, _ = a_cloud(answer(200, {"offers": [broken, arm, amd, offer]}))

    offers = cloud.list_offers(Requirements())

    assert [offer.reference["ask_id"] for offer in offers] == ["31415926"]
    assert [record.message for record in caplog.records] == ["offer left out"]


def test_memory_is_unknown_if_the_host_does_not_tell_its_cores() -> None:
    offer = changed(BODIES["offers"]["offers"][0], cpu_cores=None)
    cloud, _ = a_cloud(answer(200, {"offers": [offer]}))

    assert cloud.list_offers(Requirements())[0].memory_mib is None


@pytest.mark.parametrize(
    ("example", "state", "reason"),
    [
        ("null_status", ViewState.PROVISIONING, None),
        ("loading", ViewState.STARTING, None),
        ("running", ViewState.STARTING, None),
        ("outbid", ViewState.RECLAIMED, "outbid"),
        ("offline", ViewState.LOST, "the host is offline"),
        ("gone", ViewState.GONE, None),
    ],
)
def test_every_documented_status_has_a_state(
    example: str, state: ViewState, reason: str | None
) -> None:
    cloud, script = a_cloud(answer(200, BODIES[example]))

    view = cloud.get(ID)

    assert (view.provider_id, view.state, view.reason) == (ID, state, reason)
    assert script.requests[0].url.path == f"/api/v0/instances/{ID}/"


def test_a_container_that_cannot_start_has_failed_and_says_why() -> None:
    cloud, _ = a_cloud(answer(200, BODIES["created_failing"]))

    view = cloud.get(ID)

    assert view.state is ViewState.FAILED
    assert "OCI runtime create failed" in str(view.reason)


@pytest.mark.parametrize("status", ["unknown", "rebooting", "recycling", "scheduling", "new"])
def test_passing_and_new_statuses_are_neither_alive_nor_gone(status: Any) -> None:
    cloud, _ = a_cloud(answer(200, an_instance(actual_status=status)))

    assert cloud.get(ID).state is ViewState.UNKNOWN


@pytest.mark.parametrize("status", ["exited", "stopped", None])
def test_a_stopped_instance_still_stands(status: Any) -> None:
    body = an_instance(
        actual_status=status, cur_state="stopped", intended_status="stopped", next_state="stopped"
    )
    cloud, _ = a_cloud(answer(200, body))

    assert cloud.get(ID).state is ViewState.STOPPED


def test_a_running_instance_shows_ports_price_and_when_billing_began() -> None:
    cloud, _ = a_cloud(answer(200, BODIES["running"]))

    view = cloud.get(ID)

    assert view.stamp == STAMP
    assert view.ports == (
        PublicPort(internal=22, host="203.0.113.20", external=41022),
        PublicPort(internal=8443, host="203.0.113.20", external=41043),
    )
    assert view.price_microusd_per_hour == 362_500
    assert view.billing_started_at == datetime.fromtimestamp(1_796_000_000, UTC)


@pytest.mark.parametrize("ports", [None, [], [41022], {"22/tcp": None}, {"22/udp": [{}]}])
def test_ports_of_another_shape_are_no_ports(ports: Any) -> None:
    cloud, _ = a_cloud(answer(200, an_instance(ports=ports)))

    assert cloud.get(ID).ports == ()


def test_case_p11_a_404_is_gone_only_if_its_words_say_so() -> None:
    cloud, _ = a_cloud(
        answer(404, BODIES["destroy_again_404"]),
        answer(404, {"success": False, "error": "auth_error", "msg": "2FA session expired"}),
    )

    assert cloud.get(ID).state is ViewState.GONE
    with pytest.raises(errors.ProviderRefusedError):
        cloud.get(ID)


def test_find_asks_for_the_label_and_reads_every_page() -> None:
    page = BODIES["list"]
    first = changed(page, next_token="abc")
    stranger = changed(page["instances"][0], id=5, label="somebody-else")
    second = changed(page, instances=[stranger, changed(page["instances"][0], id=6)])
    cloud, script = a_cloud(answer(200, first), answer(200, second))

    views = cloud.find(STAMP)

    assert [view.provider_id for view in views] == [ID, "6"]
    params = script.requests[1].url.params
    assert script.requests[0].url.path == "/api/v1/instances/"
    assert json.loads(params["select_filters"]) == {"label": {"eq": STAMP}}
    assert (params["limit"], params["after_token"]) == ("25", "abc")


def test_a_list_that_breaks_off_or_turns_in_a_circle_is_not_complete() -> None:
    page = changed(BODIES["list"], next_token="abc")
    for second in (answer(500), answer(200, {"instances": None}), answer(200, page)):
        cloud, _ = a_cloud(answer(200, page), second)
        with pytest.raises(errors.ProviderBusyError):
            cloud.find(STAMP)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({}, 3600.0), ({"X_RateLimit_Reset": "90"}, 90.0), ({"Retry_After": "5"}, 5.0)],
)
def test_a_used_up_search_quota_says_when_to_come_back(
    headers: dict[str, str], seconds: float
) -> None:
    body = {"success": False, "error": "search_quota_exceeded"}
    cloud, _ = a_cloud(answer(400, body, **headers))

    with pytest.raises(errors.ProviderBusyError) as raised:
        cloud.list_offers(Requirements())

    assert raised.value.retry_after_seconds == seconds


@pytest.mark.parametrize(
    "given",
    [
        answer(200, BODIES["destroy_ok"]),
        answer(404, BODIES["destroy_again_404"]),
        answer(404, {"success": False, "error": "not_found"}),
    ],
)
def test_giving_up_is_success_if_it_was_taken_or_there_is_nothing(given: Answer) -> None:
    cloud, script = a_cloud(given)

    cloud.give_up(ID)

    assert [request.method for request in script.requests] == ["DELETE"]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(200, {"success": False, "error": "busy"}), errors.ProviderBusyError),
        (answer(404, {"msg": "2FA session expired"}), errors.ProviderRefusedError),
        (answer(429, "too fast"), errors.ProviderBusyError),
        (answer(500), errors.ProviderBusyError),
    ],
)
def test_giving_up_that_was_not_taken_is_an_error(given: Answer, error: type[Exception]) -> None:
    cloud, _ = a_cloud(given)

    check_raises_exactly(error, lambda: cloud.give_up(ID))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(401, BODIES["error_401"]), errors.KeyRefusedError),
        (answer(404, {"error": "auth_error"}), errors.ProviderRefusedError),
        (answer(429, BODIES["error_429"]), errors.ProviderBusyError),
        (answer(503), errors.ProviderBusyError),
        (answer(200, "<html>"), errors.ProviderBusyError),
        (httpx.ReadError("cut"), errors.ProviderBusyError),
    ],
)
def test_safe_calls_tell_busy_from_refused(given: Answer, error: type[Exception]) -> None:
    check_safe_calls_fail(a_cloud, given, ID, error)


def test_an_id_of_another_provider_is_refused() -> None:
    cloud, script = a_cloud()

    with pytest.raises(errors.ProviderRefusedError, match="numbers"):
        cloud.give_up("../../users/current")

    assert script.requests == []
