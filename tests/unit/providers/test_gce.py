"""Compute Engine's documented bodies, each through the adapter."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

from podferry.adapters.providers.gce import GceCloud
from podferry.adapters.providers.gce_launch import DEFAULT_IMAGE, IMAGE_GIB, MAX_RUN_SECONDS
from podferry.domain import errors
from podferry.domain.machine import PublicPort
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import ViewState
from tests.unit.providers.support import (
    BASE_URL,
    STAMP,
    Answer,
    Script,
    a_launch,
    an_offer,
    answer,
    bodies,
    changed,
    check_create_fails,
    check_refused_unsent,
)

BODIES = bodies("gce")
ZONE = "us-central1-a"
ID = f"{ZONE}.{STAMP}"
REFERENCE = {"type": "g2-standard-8", "zone": ZONE, "market": "spot"}
OFFER = an_offer("gce", REFERENCE, kind=Kind.VM, market=Market.SPOT, region="us-central1")
API = "/compute/v1/projects/sim-project"
NOT_FOUND = answer(404, BODIES["error_404"])
SAFE_CALLS: dict[str, Callable[[GceCloud], object]] = {
    "list_offers": lambda cloud: cloud.list_offers(Requirements()),
    "find": lambda cloud: cloud.find(STAMP),
    "list_machines": lambda cloud: cloud.list_machines(),
    "get": lambda cloud: cloud.get(ID),
    "give_up": lambda cloud: cloud.give_up(ID),
}


@cache
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def a_key(**values: Any) -> str:
    pem = private_key().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    key = {
        "type": "service_account",
        "project_id": "sim-project",
        "private_key_id": "k1",
        "private_key": pem.decode(),
        "client_email": "pods@sim-project.iam.gserviceaccount.com",
    }
    return json.dumps(key | values)


def a_cloud(*answers: Answer, **values: Any) -> tuple[GceCloud, Script]:
    script = Script(answers)
    return GceCloud(a_key(**values), BASE_URL, script.client), script


def page(*instances: dict[str, Any], **more: Any) -> httpx.Response:
    return answer(200, {"items": {f"zones/{ZONE}": {"instances": list(instances)}}, **more})


def test_each_call_carries_a_token_that_the_account_signed_for_this_api() -> None:
    cloud, script = a_cloud(page(), page())

    cloud.list_machines()
    cloud.list_machines()

    tokens = [each.headers["Authorization"].removeprefix("Bearer ") for each in script.requests]
    assert tokens[0] == tokens[1]
    public = private_key().public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    claims = jwt.decode(tokens[0], certs=pem, audience="https://compute.googleapis.com/")
    assert claims["iss"] == "pods@sim-project.iam.gserviceaccount.com"
    assert claims["exp"] - claims["iat"] == 3600


def test_offers_are_priced_by_the_table_and_places_that_it_does_not_know_are_left_out() -> None:
    cloud, script = a_cloud(answer(200, BODIES["machine_types"]))

    offers = cloud.list_offers(Requirements(disk_gib=23, gpu_names=("L4",)))

    # 73 GiB of disk are 0.011 dollars, the address is 0.005 or half of it.
    assert [offer.price_microusd_per_hour for offer in offers] == [869_624, 350_264]
    assert offers[1] == Offer(
        provider="gce",
        reference=REFERENCE,
        host=None,
        kind=Kind.VM,
        market=Market.SPOT,
        channel=Channel.STARTUP_SCRIPT,
        gpu_name="L4",
        gpu_count=1,
        vram_mib_per_gpu=23_034,
        vcpus=8.0,
        memory_mib=32_768,
        disk_gib=23,
        country="US",
        region="us-central1",
        price_microusd_per_hour=350_264,
        billing=BillingRule(increment_seconds=1, minimum_seconds=60),
        reclaim_notice_seconds=30,
    )
    assert script.requests[0].url.path == f"{API}/aggregated/machineTypes"
    assert script.requests[0].url.params["filter"] == '(name="g2-standard-8")'


def test_a_gpu_that_google_does_not_have_is_not_asked_for() -> None:
    cloud, script = a_cloud()

    assert cloud.list_offers(Requirements(gpu_names=("RTX 4090",))) == []
    assert script.requests == []


def test_a_launch_is_deleted_at_its_end_and_repeating_it_is_the_same_request() -> None:
    begun, done = BODIES["insert_operation"], BODIES["insert_done"]
    cloud, script = a_cloud(answer(200, begun), answer(200, done), answer(200, done))

    assert cloud.create(a_launch(OFFER, disk_gib=40)) == ID
    cloud.create(a_launch(OFFER, disk_gib=40))

    first, looked, second = script.requests
    assert first.url.path == f"{API}/zones/{ZONE}/instances"
    assert first.url == second.url
    assert first.content == second.content
    assert len(parse_qs(first.url.query.decode())["requestId"][0]) == 36
    assert looked.url.path == f"{API}/zones/{ZONE}/operations/operation-1"
    body = script.body()
    assert body["name"] == STAMP
    assert body["machineType"] == f"zones/{ZONE}/machineTypes/g2-standard-8"
    assert body["labels"] == {"podferry-stamp": STAMP}
    assert body["serviceAccounts"] == []
    assert body["scheduling"] == {
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "maxRunDuration": {"seconds": str(MAX_RUN_SECONDS)},
    }
    disk = body["disks"][0]
    assert disk["autoDelete"] is True
    assert disk["initializeParams"]["diskSizeGb"] == str(IMAGE_GIB + 40)
    assert disk["initializeParams"]["sourceImage"] == DEFAULT_IMAGE
    metadata = {item["key"]: item["value"] for item in body["metadata"]["items"]}
    assert metadata["startup-script"].startswith("#!/bin/sh\n")
    assert metadata["podferry-ports"] == "22 8443"


def test_on_demand_and_the_keys_options() -> None:
    options = {"image": "projects/p/global/images/i", "subnetworks": {"us-central1": "s"}}
    cloud, script = a_cloud(answer(200, BODIES["insert_done"]), podferry=options)

    cloud.create(a_launch(an_offer("gce", REFERENCE, region="us-central1")))

    body = script.body()
    assert body["scheduling"]["provisioningModel"] == "STANDARD"
    assert body["disks"][0]["initializeParams"]["sourceImage"] == options["image"]
    assert body["networkInterfaces"][0]["subnetwork"] == "s"


@pytest.mark.parametrize(
    ("example", "error"),
    [
        ("insert_no_capacity", errors.NoCapacityError),
        ("insert_quota", errors.QuotaExceededError),
    ],
)
def test_a_refusal_in_the_operation_is_one_of_the_create_call(
    example: str, error: type[errors.CloudError]
) -> None:
    cloud, _ = a_cloud(answer(200, BODIES["insert_operation"]), answer(200, BODIES[example]))

    with pytest.raises(error):
        cloud.create(a_launch(OFFER))


@pytest.mark.parametrize(
    "looked",
    [
        answer(200, BODIES["insert_operation"]),
        answer(503, "busy"),
        answer(404, BODIES["error_404"]),
        answer(401, BODIES["error_401"]),
        httpx.ReadTimeout("x"),
    ],
)
def test_case_p1_a_launch_that_was_taken_is_not_lost_because_its_operation_says_nothing_yet(
    looked: Answer,
) -> None:
    cloud, _ = a_cloud(answer(200, BODIES["insert_operation"]), looked)

    assert cloud.create(a_launch(OFFER)) == ID


def google_error(status: int, reason: str) -> httpx.Response:
    error = {"code": status, "message": "no", "errors": [{"reason": reason, "message": "no"}]}
    return answer(status, {"error": error})


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(409, BODIES["error_409"]), errors.OutcomeUnknownError),
        (answer(503, "x"), errors.OutcomeUnknownError),
        (answer(200, "no JSON"), errors.OutcomeUnknownError),
        (httpx.ReadTimeout("x"), errors.OutcomeUnknownError),
        (httpx.ConnectError("x"), errors.ProviderBusyError),
        (answer(403, BODIES["error_rate"]), errors.ProviderBusyError),
        (answer(429, "x"), errors.ProviderBusyError),
        (google_error(403, "quotaExceeded"), errors.QuotaExceededError),
        (google_error(403, "forbidden"), errors.KeyRefusedError),
        (google_error(403, "accessNotConfigured"), errors.ProviderRefusedError),
        (google_error(404, "notFound"), errors.OfferGoneError),
        (google_error(400, "invalid"), errors.ProviderRefusedError),
        (answer(401, BODIES["error_401"]), errors.KeyRefusedError),
    ],
)
def test_case_p1_every_answer_to_a_create_says_whether_a_machine_may_exist(
    given: Answer, error: type[errors.CloudError]
) -> None:
    check_create_fails(*a_cloud(given), OFFER, error)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("PENDING", ViewState.PROVISIONING),
        ("PROVISIONING", ViewState.PROVISIONING),
        ("STAGING", ViewState.PROVISIONING),
        ("RUNNING", ViewState.STARTING),
        ("STOPPING", ViewState.TERMINATING),
        ("DEPROVISIONING", ViewState.TERMINATING),
        ("TERMINATED", ViewState.STOPPED),
        ("SUSPENDED", ViewState.STOPPED),
        ("REPAIRING", ViewState.LOST),
        ("NEW_WORD", ViewState.UNKNOWN),
    ],
)
def test_states(status: str, state: ViewState) -> None:
    cloud, script = a_cloud(answer(200, changed(BODIES["RUNNING"], status=status)))

    view = cloud.get(ID)

    assert (view.provider_id, view.stamp, view.state, view.raw_status) == (ID, STAMP, state, status)
    assert script.requests[0].url.path == f"{API}/zones/{ZONE}/instances/{STAMP}"


def test_a_running_machine_has_its_own_ports_and_no_price() -> None:
    cloud, _ = a_cloud(answer(200, BODIES["RUNNING"]))

    view = cloud.get(ID)

    assert view.ports == (
        PublicPort(internal=22, host="203.0.113.30", external=22),
        PublicPort(internal=8443, host="203.0.113.30", external=8443),
    )
    assert view.price_microusd_per_hour is None
    assert view.billing_started_at == datetime(2026, 11, 30, 11, 10, 40, tzinfo=UTC)


def test_a_machine_that_could_not_be_made_is_shown_as_failed_with_the_operations_reason() -> None:
    cloud, script = a_cloud(NOT_FOUND, answer(200, {"items": [BODIES["insert_no_capacity"]]}))

    view = cloud.get(ID)

    assert (view.state, view.stamp) == (ViewState.FAILED, STAMP)
    assert "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS" in str(view.reason)
    condition = script.requests[1].url.params["filter"]
    assert condition == f'(targetLink eq ".*/instances/{STAMP}") (operationType eq "insert")'


def test_what_google_does_not_have_is_gone_without_a_stamp() -> None:
    cloud, _ = a_cloud(NOT_FOUND, answer(200, {"items": [BODIES["insert_done"]]}), NOT_FOUND)

    view = cloud.get(ID)
    cloud.give_up(ID)

    assert (view.state, view.stamp) == (ViewState.GONE, None)


def test_giving_up_a_machine_that_is_not_ready_is_to_be_repeated() -> None:
    cloud, _ = a_cloud(
        google_error(400, "resourceNotReady"), answer(200, BODIES["delete_operation"])
    )

    with pytest.raises(errors.NotGoneYetError):
        cloud.give_up(ID)
    cloud.give_up(ID)


def test_lists_read_every_page_and_every_zone() -> None:
    other = changed(BODIES["STAGING"], name="pf-2", zone="https://x/zones/europe-west4-b")
    cloud, script = a_cloud(page(BODIES["RUNNING"], nextPageToken="t"), page(other))

    views = cloud.list_machines()

    assert [view.provider_id for view in views] == [ID, "europe-west4-b.pf-2"]
    assert [each.url.params.get("pageToken") for each in script.requests] == [None, "t"]
    assert script.requests[0].url.params["filter"] == "labels.podferry-stamp:*"


def test_case_p9_a_list_that_leaves_out_a_zone_or_repeats_a_page_proves_nothing() -> None:
    unreachable = {"items": {"zones/x": {"warning": {"code": "UNREACHABLE"}}}}
    cloud, _ = a_cloud(answer(200, unreachable), *[page(nextPageToken="t")] * 2)

    for _ in range(2):
        with pytest.raises(errors.ProviderBusyError):
            cloud.find(STAMP)


@pytest.mark.parametrize("name", SAFE_CALLS)
@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(503, "x"), errors.ProviderBusyError),
        (answer(403, BODIES["error_rate"]), errors.ProviderBusyError),
        (answer(401, BODIES["error_401"]), errors.ProviderRefusedError),
        (google_error(403, "forbidden"), errors.ProviderRefusedError),
    ],
)
def test_safe_calls_are_busy_or_refused(
    name: str, given: Answer, error: type[errors.CloudError]
) -> None:
    cloud, _ = a_cloud(given)

    with pytest.raises(error):
        SAFE_CALLS[name](cloud)


def test_a_stamp_that_is_no_name_is_refused_before_it_is_sent() -> None:
    cloud, script = a_cloud()

    check_refused_unsent(cloud, script, a_launch(OFFER, stamp="1-upper"), "begin with a letter")


@pytest.mark.parametrize("text", ["", "{}", '{"project_id": "X", "private_key": "canary"}'])
def test_a_key_of_another_form_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(errors.ProviderRefusedError, match="service account's key file") as raised:
        GceCloud(text).get(ID)

    assert "canary" not in str(raised.value)


def test_a_private_key_that_cannot_be_read_is_refused_without_quoting_it() -> None:
    cloud, _ = a_cloud(private_key="canary")

    with pytest.raises(errors.ProviderRefusedError, match="cannot be read") as raised:
        cloud.get(ID)

    assert "canary" not in repr(raised.value.__dict__) + str(raised.value)
