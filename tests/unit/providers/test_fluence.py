"""Fluence's documented bodies, each through the adapter."""

import logging
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest

from podferry.adapters.providers.fluence import FluenceCloud
from podferry.domain import errors
from podferry.domain.machine import PublicPort
from podferry.domain.offer import BillingRule, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import LaunchRequest, ViewState
from tests.unit.providers.support import (
    BASE_URL,
    KEY,
    STAMP,
    Answer,
    a_launch,
    an_offer,
    answer,
    bodies,
    changed,
    check_create_fails,
    check_refused_unsent,
    check_safe_calls_fail,
    scripted,
)

BODIES = bodies("fluence")
ID = "c0ffee00-0000-4000-8000-000000000001"
PLAN = "5b1f6b0e-1111-4c0e-9a55-0a0a0a0a0a01"
OFFER = an_offer("fluence", {"plan_id": PLAN, "country": "US"})
CONTAINERS = Requirements(kinds=(Kind.CONTAINER,))
NONE = (answer(200, []), answer(200, {"data": []}))
"""The lists of virtual machines and of bare metal."""
a_cloud = partial(scripted, FluenceCloud)


def test_a_plan_becomes_one_offer_for_each_country() -> None:
    cloud, script = a_cloud(answer(200, BODIES["plans"]))

    offers = cloud.list_offers(CONTAINERS)

    assert [offer.country for offer in offers] == ["US", "NO"]
    assert offers[0] == Offer(
        provider="fluence",
        reference={"plan_id": PLAN, "country": "US"},
        host=None,
        kind=Kind.CONTAINER,
        market=Market.ON_DEMAND,
        gpu_name="H100 SXM",
        gpu_count=1,
        vram_mib_per_gpu=81_920,
        vcpus=16.0,
        memory_mib=131_072,
        disk_gib=200,
        country="US",
        region=None,
        price_microusd_per_hour=1_500_000,
        billing=BillingRule(increment_seconds=3600, minimum_seconds=3600),
        can_cancel_starting=False,
    )
    assert str(script.requests[0].url) == f"{BASE_URL}/gpu/plans/"
    assert script.requests[0].headers["X-API-KEY"] == KEY


def test_a_plan_without_places_is_one_offer_without_a_country() -> None:
    entry = changed(BODIES["plans"][0], attributes={"location": []})
    cloud, _ = a_cloud(answer(200, [entry]))

    offers = cloud.list_offers(CONTAINERS)

    assert [offer.reference for offer in offers] == [{"plan_id": PLAN}]
    assert offers[0].country is None


def test_a_plan_that_cannot_be_read_is_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    foreign = changed(BODIES["plans"][0])
    foreign["plan"]["pricing"]["currency"] = "EUR"
    cloud, _ = a_cloud(answer(200, [{"plan": {"id": "x"}}, foreign, *BODIES["plans"]]))

    assert len(cloud.list_offers(CONTAINERS)) == 2
    assert [record.message for record in caplog.records] == ["offer left out"] * 2


@pytest.mark.parametrize(
    ("example", "state", "raw_status"),
    [
        ("container_INITIALIZED", ViewState.PROVISIONING, "INITIALIZED/NOT_STARTED"),
        ("container_ACTIVE_image_pulling", ViewState.PULLING, "ACTIVE/NOT_STARTED"),
        ("container_ACTIVE", ViewState.STARTING, "ACTIVE/STARTED"),
        ("container_FAILED", ViewState.FAILED, "FAILED/NOT_STARTED"),
        ("container_ENDED", ViewState.GONE, "ENDED/NOT_STARTED"),
    ],
)
def test_every_documented_status_has_a_state(
    example: str, state: ViewState, raw_status: str
) -> None:
    cloud, script = a_cloud(answer(200, BODIES[example]))

    view = cloud.get(ID)

    assert (view.provider_id, view.stamp) == (ID, STAMP)
    assert (view.state, view.raw_status) == (state, raw_status)
    assert str(script.requests[0].url) == f"{BASE_URL}/gpu/instances/{ID}"


def test_an_unknown_status_is_neither_alive_nor_gone() -> None:
    body = changed(BODIES["container_ACTIVE"], instance_status="HIBERNATED")
    cloud, _ = a_cloud(answer(200, body))

    assert cloud.get(ID).state is ViewState.UNKNOWN


def test_a_running_container_shows_ports_price_and_when_billing_began() -> None:
    cloud, _ = a_cloud(answer(200, BODIES["container_ACTIVE"]))

    view = cloud.get(ID)

    host = "provider.example.akash.pub"
    assert view.ports == (
        PublicPort(internal=22, host=host, external=30694),
        PublicPort(internal=8443, host=host, external=31844),
    )
    assert view.price_microusd_per_hour == 1_500_000
    assert view.billing_started_at == datetime(2026, 11, 30, 11, 13, tzinfo=UTC)


def test_billing_began_one_hour_earlier_for_each_hour_charged() -> None:
    billing = {
        "hourly_usage": 1.1,
        "total_spendings": 3.3,
        "next_billing_period": "2026-11-30T14:13:00Z",
    }
    cloud, _ = a_cloud(answer(200, changed(BODIES["container_ACTIVE"], billing=billing)))

    assert cloud.get(ID).billing_started_at == datetime(2026, 11, 30, 11, 13, tzinfo=UTC)


@pytest.mark.parametrize("example", ["container_INITIALIZED", "container_ENDED"])
def test_a_container_that_does_not_run_shows_no_price_and_no_clock(example: str) -> None:
    cloud, _ = a_cloud(answer(200, BODIES[example]))

    view = cloud.get(ID)

    assert view.price_microusd_per_hour is None
    assert view.billing_started_at is None
    assert view.ports == ()


def test_a_container_that_is_not_found_is_gone() -> None:
    cloud, _ = a_cloud(answer(404, {"detail": "Not Found"}))

    assert cloud.get(ID).state is ViewState.GONE


def test_odd_figures_do_not_hide_a_machine() -> None:
    billing = {"hourly_usage": "n/a", "total_spendings": None, "next_billing_period": None}
    body = changed(BODIES["container_ACTIVE"], billing=billing, network={"domain": None})
    cloud, _ = a_cloud(answer(200, [body]), *NONE)

    assert [view.state for view in cloud.find(STAMP)] == [ViewState.STARTING]


def test_find_returns_every_container_with_the_name_and_no_other() -> None:
    other = changed(BODIES["container_ACTIVE"], name=f"{STAMP[:-1]}z", id="other")
    ended = changed(BODIES["container_ENDED"], id="ended")
    cloud, _ = a_cloud(answer(200, [other, BODIES["container_ACTIVE"], ended]), *NONE)

    assert [view.provider_id for view in cloud.find(STAMP)] == [ID, "ended"]


@pytest.mark.parametrize("body", [{"detail": "odd"}, [{"name": STAMP}], "<html>"])
def test_a_list_that_cannot_be_read_is_not_taken_for_an_empty_one(body: Any) -> None:
    cloud, _ = a_cloud(answer(200, body))

    with pytest.raises(errors.ProviderBusyError):
        cloud.find(STAMP)


def test_create_sends_what_the_documentation_asks_for() -> None:
    cloud, script = a_cloud(answer(201, BODIES["deploy_response"]))

    made = cloud.create(a_launch(OFFER, ssh_public_key="ssh-ed25519 AAAA me"))

    assert made == ID
    assert script.requests[0].method == "POST"
    assert str(script.requests[0].url) == f"{BASE_URL}/gpu/instances/"
    assert script.body() == {
        "plan_id": PLAN,
        "name": STAMP,
        "container_settings": {
            "image": "docker.io/example/gpu-base:1",
            "expose": [{"port": "22", "protocol": "tcp"}, {"port": "8443", "protocol": "tcp"}],
            "environment": [
                {"name": "PF_TOKEN", "value": "pfb_mach_1_secret"},
                {"name": "PF_API", "value": "https://api.example.com"},
            ],
            "startup_command": "exec /.podferry/start",
        },
        "constraints": {"location": "US"},
        "ssh_key": "ssh-ed25519 AAAA me",
    }


def test_without_ports_the_one_that_fluence_requires_is_22() -> None:
    cloud, script = a_cloud(answer(200, BODIES["deploy_response"]))

    cloud.create(a_launch(an_offer("fluence", {"plan_id": PLAN}), ports=()))

    assert script.body()["container_settings"]["expose"] == [{"port": "22", "protocol": "tcp"}]
    assert "constraints" not in script.body()
    assert "ssh_key" not in script.body()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"bootstrap": "x" * 2049}, "2049 characters, at most 2048"),
        ({"environment": {"pf_token": "x"}}, "pf_token"),
        ({"environment": {f"A{i}": "x" for i in range(65)}}, "at most 64"),
        ({"environment": {"SSH_PUBKEY": "x"}, "ssh_public_key": "ssh-ed25519 A"}, "SSH_PUBKEY"),
        ({"ports": tuple(range(1, 12))}, "at most 10 ports"),
        ({"image": "docker.io/Example/Base:1"}, "lower case"),
        ({"stamp": "pf-0a1b2c3d-0123456789abcd"}, "1 to 25 characters"),
    ],
)
def test_a_launch_beyond_a_limit_is_refused_before_anything_is_sent(
    values: dict[str, Any], says: str
) -> None:
    check_refused_unsent(*a_cloud(), a_launch(OFFER, **values), says)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(400, BODIES["error_400_balance"]), errors.ProviderRefusedError),
        (answer(400, BODIES["error_400_os"]), errors.ProviderRefusedError),
        (answer(400, {"detail": "Selected plan is no longer available"}), errors.OfferGoneError),
        (answer(404, {"detail": "Plan not found"}), errors.OfferGoneError),
        (answer(400, {"detail": "Not enough capacity in US"}), errors.NoCapacityError),
        (answer(400, {"detail": "Instance limit reached"}), errors.QuotaExceededError),
        (answer(422, BODIES["error_422"]), errors.ProviderRefusedError),
        (answer(400, "<html>"), errors.ProviderRefusedError),
        (answer(400, []), errors.ProviderRefusedError),
        (answer(401), errors.KeyRefusedError),
        (answer(403), errors.KeyRefusedError),
        (answer(307, None, location="/gpu/instances"), errors.ProviderRefusedError),
        (answer(429, None, retry_after="7"), errors.ProviderBusyError),
        (answer(500), errors.OutcomeUnknownError),
        (answer(504, "<html>gateway</html>"), errors.OutcomeUnknownError),
        (answer(200, {"ok": True}), errors.OutcomeUnknownError),
        (httpx.ConnectError("refused"), errors.ProviderBusyError),
        (httpx.ReadTimeout("late"), errors.OutcomeUnknownError),
    ],
)
def test_a_create_that_fails_says_whether_something_was_made(
    given: Answer, error: type[Exception]
) -> None:
    check_create_fails(*a_cloud(given), OFFER, error)


def test_an_unknown_refusal_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    token = "pfb_mach_01_0123456789abcdef"
    text = f"weird: key {KEY}, token {token}, https://bucket.test/a?X-Signature=abc"
    cloud, _ = a_cloud(answer(400, {"detail": text}))

    with pytest.raises(errors.ProviderRefusedError) as raised:
        cloud.create(a_launch(OFFER))

    said = caplog.records[0].__dict__["said"]
    for secret in (KEY, token, "X-Signature=abc"):
        assert secret not in said
        assert secret not in raised.value.detail
    assert said.startswith("weird: key [removed]")


def test_a_validation_error_names_the_place_but_not_our_value() -> None:
    cloud, _ = a_cloud(answer(422, BODIES["error_422"]))

    with pytest.raises(errors.ProviderRefusedError) as raised:
        cloud.create(a_launch(OFFER))

    assert "expose.0.port: Value error, port out of range" in raised.value.detail
    assert "70000" not in raised.value.detail


def test_giving_up_an_active_container_is_one_call() -> None:
    cloud, script = a_cloud(answer(204))

    cloud.give_up(ID)

    assert [request.method for request in script.requests] == ["DELETE"]


@pytest.mark.parametrize("example", ["container_ENDED", "container_FAILED"])
def test_a_refused_delete_is_success_if_the_container_is_over(example: str) -> None:
    refusal = answer(400, BODIES["error_400_terminate_not_active"])
    cloud, script = a_cloud(refusal, answer(200, BODIES[example]))

    cloud.give_up(ID)

    assert [request.method for request in script.requests] == ["DELETE", "GET"]


def test_a_delete_of_nothing_is_success() -> None:
    cloud, _ = a_cloud(answer(404, {"detail": "Not Found"}))

    cloud.give_up(ID)


@pytest.mark.parametrize("example", ["container_INITIALIZED", "container_ACTIVE"])
def test_a_container_that_cannot_be_ended_yet_says_so(example: str) -> None:
    refusal = answer(400, BODIES["error_400_terminate_not_active"])
    cloud, _ = a_cloud(refusal, answer(200, BODIES[example]))

    with pytest.raises(errors.NotGoneYetError):
        cloud.give_up(ID)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(401), errors.KeyRefusedError),
        (answer(403), errors.KeyRefusedError),
        (answer(400, {"detail": "API key is malformed"}), errors.ProviderRefusedError),
        (answer(429), errors.ProviderBusyError),
        (answer(503), errors.ProviderBusyError),
        (httpx.ReadTimeout("late"), errors.ProviderBusyError),
    ],
)
def test_safe_calls_tell_busy_from_refused(given: Answer, error: type[Exception]) -> None:
    check_safe_calls_fail(a_cloud, given, ID, error)


def test_ids_cannot_leave_their_path() -> None:
    cloud, script = a_cloud(answer(404, {"detail": "Not Found"}))

    cloud.get("../plans/")

    assert script.requests[0].url.raw_path == b"/gpu/instances/..%2Fplans%2F"


def test_creates_get_a_minute_and_other_calls_twenty_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    launch: LaunchRequest = a_launch(OFFER)
    cloud, script = a_cloud(answer(201, BODIES["deploy_response"]), answer(204))

    cloud.create(launch)
    cloud.give_up(ID)

    assert [request.extensions["timeout"]["read"] for request in script.requests] == [60.0, 20.0]
