"""Lambda's documented bodies, each through the adapter."""

from functools import partial
from typing import Any

import httpx
import pytest

from podferry.adapters.providers.lambda_cloud import LambdaCloud
from podferry.adapters.providers.vm_launch import user_data
from podferry.domain import errors
from podferry.domain.machine import PublicPort
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import ViewState
from tests.unit.providers.support import (
    BASE_URL,
    KEY,
    STAMP,
    Answer,
    Script,
    a_launch,
    an_offer,
    answer,
    bodies,
    check_create_fails,
    check_refused_unsent,
    check_safe_calls_fail,
    scripted,
)

BODIES = bodies("lambda")
ID = "0920582c7ff041399e34823a0be62549"
OFFER = an_offer("lambda", {"instance_type": "gpu_1x_h100_pcie", "region": "us-west-3"})
PAGE = "<html>gateway</html>"
a_cloud = partial(scripted, LambdaCloud)


def refused(status: int, code: str, message: str = "no") -> httpx.Response:
    return answer(status, {"error": {"code": code, "message": message}})


def the_machine(**values: Any) -> httpx.Response:
    return answer(200, {"data": BODIES["active"]["data"] | values})


# Offers


def test_each_region_with_capacity_is_an_offer() -> None:
    cloud, script = a_cloud(answer(200, BODIES["instance_types"]))

    offers = cloud.list_offers(Requirements())

    assert [(o.gpu_name, o.gpu_count, o.region, o.country) for o in offers] == [
        ("H100 PCIe", 1, "us-west-3", "US"),
        ("H100 PCIe", 1, "europe-central-1", "DE"),
        ("A100 SXM", 8, "asia-northeast-1", "JP"),
        ("Quadro RTX 6000", 1, "us-south-1", "US"),
    ]
    assert offers[0] == Offer(
        provider="lambda",
        reference={"instance_type": "gpu_1x_h100_pcie", "region": "us-west-3"},
        host=None,
        kind=Kind.VM,
        market=Market.ON_DEMAND,
        channel=Channel.CLOUD_INIT,
        gpu_name="H100 PCIe",
        gpu_count=1,
        vram_mib_per_gpu=81_920,
        vcpus=26.0,
        memory_mib=204_800,
        disk_gib=1024,
        country="US",
        region="us-west-3",
        price_microusd_per_hour=2_490_000,
        billing=BillingRule(increment_seconds=60),
        can_cancel_starting=False,
    )
    assert str(script.requests[0].url) == f"{BASE_URL}/api/v1/instance-types"
    assert script.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_a_region_nobody_knows_has_no_country_and_an_odd_row_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    row = BODIES["instance_types"]["data"]["gpu_1x_h100_pcie"]
    moon = row | {"regions_with_capacity_available": [{"name": "moon-1"}]}
    cloud, _ = a_cloud(answer(200, {"data": {"a": {"name": "odd"}, "b": moon}}))

    (offer,) = cloud.list_offers(Requirements())

    assert (offer.region, offer.country) == ("moon-1", None)
    assert [record.message for record in caplog.records] == ["offer left out"]


# Looking


@pytest.mark.parametrize(
    ("example", "state"),
    [
        ("booting", ViewState.PROVISIONING),
        ("active", ViewState.STARTING),
        ("unhealthy", ViewState.LOST),
        ("preempted", ViewState.LOST),
        ("terminating", ViewState.TERMINATING),
        ("terminated", ViewState.GONE),
    ],
)
def test_every_documented_status_has_a_state(example: str, state: ViewState) -> None:
    cloud, script = a_cloud(answer(200, BODIES[example]))

    view = cloud.get(ID)

    assert (view.provider_id, view.stamp) == (ID, STAMP)
    assert (view.state, view.raw_status) == (state, example)
    assert view.price_microusd_per_hour == 2_490_000
    assert view.billing_started_at is None
    assert script.requests[0].url.path == f"/api/v1/instances/{ID}"


def test_an_unknown_status_is_neither_alive_nor_gone() -> None:
    cloud, _ = a_cloud(the_machine(status="hibernated"))

    assert cloud.get(ID).state is ViewState.UNKNOWN


def test_the_ports_that_were_asked_for_are_those_of_the_machine() -> None:
    cloud, _ = a_cloud(answer(200, BODIES["active"]))

    assert cloud.get(ID).ports == (
        PublicPort(internal=22, host="203.0.113.50", external=22),
        PublicPort(internal=8443, host="203.0.113.50", external=8443),
    )


@pytest.mark.parametrize(
    "values",
    [
        {"ip": None},
        {"tags": None},
        {"tags": [{"key": "other", "value": "22"}]},
        {"tags": [{"key": "podferry-ports", "value": ""}]},
        {"status": "booting"},
    ],
)
def test_without_address_or_tag_there_are_no_ports(values: dict[str, Any]) -> None:
    cloud, _ = a_cloud(the_machine(**values))

    assert cloud.get(ID).ports == ()


def test_a_404_of_lambdas_own_shows_no_stamp_and_one_of_a_proxy_shows_nothing() -> None:
    cloud, _ = a_cloud(answer(404, BODIES["error_404"]), answer(404, PAGE))

    view = cloud.get(ID)

    assert (view.state, view.stamp) == (ViewState.GONE, None)
    with pytest.raises(errors.ProviderBusyError):
        cloud.get(ID)


def test_find_returns_every_machine_with_the_name_and_no_other() -> None:
    machine = BODIES["active"]["data"]
    rows = [machine | {"name": None, "id": "nameless"}, machine, machine | {"id": "double"}]
    cloud, _ = a_cloud(answer(200, {"data": rows}))

    assert [view.provider_id for view in cloud.find(STAMP)] == [ID, "double"]


@pytest.mark.parametrize("body", [{"data": None}, {"data": [{"name": STAMP}]}, [], PAGE])
def test_a_list_that_cannot_be_read_is_not_taken_for_an_empty_one(body: Any) -> None:
    cloud, _ = a_cloud(answer(200, body))

    with pytest.raises(errors.ProviderBusyError):
        cloud.find(STAMP)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(401, BODIES["error_401"]), errors.KeyRefusedError),
        (refused(400, "global/invalid-parameters"), errors.ProviderRefusedError),
        (refused(400, "provider/internal-unavailable"), errors.ProviderBusyError),
        (answer(400, PAGE), errors.ProviderBusyError),
        (answer(429), errors.ProviderBusyError),
        (answer(500, {"error": {"code": "global/internal-error"}}), errors.ProviderBusyError),
        (httpx.ReadTimeout("late"), errors.ProviderBusyError),
    ],
)
def test_safe_calls_tell_busy_from_refused(given: Answer, error: type[Exception]) -> None:
    check_safe_calls_fail(a_cloud, given, ID, error)


# Creating


def test_create_sends_what_the_documentation_asks_for() -> None:
    cloud, script = a_cloud(answer(200, BODIES["launch_ok"]))
    launch = a_launch(OFFER)

    assert cloud.create(launch) == ID
    assert str(script.requests[0].url) == f"{BASE_URL}/api/v1/instance-operations/launch"
    assert script.body() == {
        "region_name": "us-west-3",
        "instance_type_name": "gpu_1x_h100_pcie",
        "ssh_key_names": ["podferry"],
        "name": STAMP,
        "user_data": user_data(launch),
        "tags": [{"key": "podferry-ports", "value": "22-8443"}],
    }


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"stamp": "x" * 65}, "at most 64"),
        ({"environment": {f"NAME_{i}": "x" * 100_000 for i in range(10)}}, "at most 1000000"),
    ],
)
def test_a_launch_beyond_a_limit_is_refused_before_anything_is_sent(
    values: dict[str, Any], says: str
) -> None:
    check_refused_unsent(*a_cloud(), a_launch(OFFER, **values), says)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(400, BODIES["error_capacity"]), errors.OfferGoneError),
        (answer(400, BODIES["error_quota"]), errors.QuotaExceededError),
        (answer(401, BODIES["error_401"]), errors.KeyRefusedError),
        (answer(403, BODIES["error_403"]), errors.ProviderRefusedError),
        (refused(400, "global/invalid-parameters"), errors.ProviderRefusedError),
        (refused(400, "instance-operations/launch/file-system-in-wrong-region"),
         errors.ProviderRefusedError),
        (refused(400, "something/new"), errors.ProviderRefusedError),
        (answer(400, BODIES["error_provider"]), errors.OutcomeUnknownError),
        (answer(400, PAGE), errors.ProviderBusyError),
        (answer(403, PAGE), errors.ProviderBusyError),
        (answer(404, BODIES["error_404"]), errors.ProviderBusyError),
        (answer(429), errors.ProviderBusyError),
        (refused(500, "global/internal-error"), errors.OutcomeUnknownError),
        (answer(502, PAGE), errors.OutcomeUnknownError),
        (answer(200, PAGE), errors.OutcomeUnknownError),
        (answer(200, {"data": {"instance_ids": []}}), errors.OutcomeUnknownError),
        (httpx.ConnectError("refused"), errors.ProviderBusyError),
        (httpx.ReadTimeout("late"), errors.OutcomeUnknownError),
    ],
)  # fmt: skip
def test_case_p1_a_create_that_fails_says_whether_something_was_made(
    given: Answer, error: type[Exception]
) -> None:
    check_create_fails(*a_cloud(given), OFFER, error)


def test_after_a_launch_that_came_too_soon_the_next_one_waits_for_its_interval() -> None:
    cloud, _ = a_cloud(answer(429))

    with pytest.raises(errors.ProviderBusyError) as raised:
        cloud.create(a_launch(OFFER))

    assert raised.value.retry_after_seconds == 12


def test_the_first_launch_of_an_account_makes_its_key_with_one_request_at_a_time() -> None:
    made = {"id": "k", "name": "podferry", "public_key": "ssh-ed25519 A", "private_key": "canary"}
    cloud, script = a_cloud(
        answer(404, BODIES["error_404"]),
        answer(200, {"data": made}),
        answer(200, BODIES["launch_ok"]),
    )

    for _ in range(2):
        with pytest.raises(errors.ProviderBusyError) as raised:
            cloud.create(a_launch(OFFER))
        assert "canary" not in raised.value.detail
        assert raised.value.retry_after_seconds == 12
    assert cloud.create(a_launch(OFFER)) == ID

    assert [request.url.path for request in script.requests] == [
        "/api/v1/instance-operations/launch",
        "/api/v1/ssh-keys",
        "/api/v1/instance-operations/launch",
    ]
    assert script.body(1) == {"name": "podferry"}


def test_an_object_that_is_missing_beside_the_key_is_the_offer() -> None:
    duplicate = refused(400, "global/duplicate")
    cloud, _ = a_cloud(
        answer(404, BODIES["error_404"]), duplicate, answer(200, BODIES["launch_ok"])
    )

    with pytest.raises(errors.ProviderBusyError):
        cloud.create(a_launch(OFFER))
    with pytest.raises(errors.OfferGoneError):
        cloud.create(a_launch(OFFER))
    assert cloud.create(a_launch(OFFER)) == ID


def test_a_key_that_cannot_be_made_is_refused() -> None:
    cloud, _ = a_cloud(answer(404, BODIES["error_404"]), refused(400, "global/quota-exceeded"))

    with pytest.raises(errors.ProviderBusyError):
        cloud.create(a_launch(OFFER))
    with pytest.raises(errors.ProviderRefusedError, match="quota-exceeded"):
        cloud.create(a_launch(OFFER))


def test_case_x5_an_unknown_refusal_is_logged_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cloud, _ = a_cloud(refused(400, "something/new", f"weird: key {KEY}"))

    with pytest.raises(errors.ProviderRefusedError):
        cloud.create(a_launch(OFFER))

    assert caplog.records[0].__dict__["said"] == "new: weird: key [removed]"


# Giving up


def test_giving_up_is_one_call_whose_answer_lists_the_machine() -> None:
    cloud, script = a_cloud(answer(200, BODIES["terminate_ok"]))

    cloud.give_up(ID)

    assert script.requests[0].url.path == "/api/v1/instance-operations/terminate"
    assert script.body() == {"instance_ids": [ID]}


def test_giving_up_what_is_not_there_is_success() -> None:
    cloud, script = a_cloud(answer(404, BODIES["error_404"]))

    cloud.give_up(ID)

    assert len(script.requests) == 1


@pytest.mark.parametrize("example", ["terminating", "terminated"])
def test_a_refused_termination_is_success_if_the_machine_is_ending(example: str) -> None:
    cloud, _ = a_cloud(refused(400, "global/invalid-parameters"), answer(200, BODIES[example]))

    cloud.give_up(ID)


@pytest.mark.parametrize("example", ["booting", "active", "unhealthy"])
@pytest.mark.parametrize(
    "given",
    [
        answer(200, {"data": {"terminated_instances": []}}),
        refused(400, "global/invalid-parameters"),
        refused(400, "provider/internal-unavailable"),
    ],
)
def test_a_machine_that_was_not_ended_is_to_be_asked_for_again(
    given: httpx.Response, example: str
) -> None:
    cloud, _ = a_cloud(given, answer(200, BODIES[example]))

    with pytest.raises(errors.NotGoneYetError, match=example):
        cloud.give_up(ID)


def test_ids_cannot_leave_their_path() -> None:
    cloud, script = a_cloud(answer(404, BODIES["error_404"]))

    cloud.get("../ssh-keys")

    assert script.requests[0].url.raw_path == b"/api/v1/instances/..%2Fssh-keys"


def test_the_version_in_the_address_is_optional() -> None:
    script = Script([answer(200, {"data": []})])

    LambdaCloud(KEY, f"{BASE_URL}/api/v1/", script.client).find(STAMP)

    assert script.requests[0].url.path == "/api/v1/instances"
