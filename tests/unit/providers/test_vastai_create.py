"""Creating a machine at Vast.ai: what is sent, and what each answer proves."""

import subprocess
from functools import partial
from typing import Any

import httpx
import pytest

from podferry.adapters.providers.vastai import VastCloud
from podferry.domain import errors
from podferry.domain.offer import Market
from tests.unit.providers.support import (
    STAMP,
    Answer,
    a_launch,
    an_offer,
    answer,
    bodies,
    check_create_fails,
    check_refused_unsent,
    scripted,
)

BODIES = bodies("vastai")
ID = "27182818"
OFFER = an_offer("vastai", {"ask_id": "31415926"})
LONG_URL = "https://bucket.s3.eu-central-1.amazonaws.com/agent.tar.gz?X-Amz-Token=" + "a'b" * 100
a_cloud = partial(scripted, VastCloud)


def test_create_sends_what_the_documentation_asks_for() -> None:
    cloud, script = a_cloud(answer(200, BODIES["create_ok"]))

    made = cloud.create(a_launch(OFFER, disk_gib=60))

    assert made == ID
    assert script.requests[0].method == "PUT"
    assert script.requests[0].url.path == "/api/v0/asks/31415926/"
    assert script.body() == {
        "client_id": "me",
        "image": "docker.io/example/gpu-base:1",
        "disk": 65,
        "label": STAMP,
        "runtype": "args",
        "user": "root",
        "onstart": "/bin/sh",
        "args": ["-c", "exec /.podferry/start"],
        "env": {
            "PF_TOKEN": "pfb_mach_1_secret",
            "PF_API": "https://api.example.com",
            "-p 22:22": "1",
            "-p 8443:8443": "1",
        },
        "cancel_unavail": True,
    }


def test_a_bid_is_sent_as_the_price_and_nothing_else_differs() -> None:
    cloud, script = a_cloud(*[answer(200, BODIES["create_ok"])] * 2)
    reference = {"ask_id": "31415926", "bid_microusd": "225000"}

    cloud.create(a_launch(OFFER))
    cloud.create(a_launch(an_offer("vastai", reference, market=Market.SPOT)))

    assert script.body(1) == script.body(0) | {"price": 0.225}


def test_the_smallest_disk_is_eight_gigabytes() -> None:
    cloud, script = a_cloud(answer(200, BODIES["create_ok"]))

    cloud.create(a_launch(OFFER, disk_gib=1))

    assert script.body()["disk"] == 8


def test_values_that_the_environment_cannot_carry_travel_in_the_script() -> None:
    odd = {"PF_BUNDLE_URL": LONG_URL, "PF_CA": "-----BEGIN\nAA==\n", "Q": "$(id) `id` \"'\\"}
    cloud, script = a_cloud(answer(200, BODIES["create_ok"]))

    cloud.create(a_launch(OFFER, environment={"PF_API": "x", **odd}, bootstrap="env -0"))

    body = script.body()
    assert {name for name in body["env"] if not name.startswith("-p")} == {"PF_API"}
    shell = [body["onstart"], *body["args"]]
    output = subprocess.run(shell, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True)
    seen = dict(item.split("=", 1) for item in output.stdout.decode().split("\0") if item)
    assert {name: seen[name] for name in odd} == odd


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"bootstrap": "x" * 4096}, "4105 characters, at most 4096"),
        ({"environment": {"A": "x" * 4096}}, "at most 4096"),
        ({"environment": {"not a name": "x"}}, "not a name"),
        ({"environment": {f"A{i}": "x" * 250 for i in range(140)}}, "at most 32768"),
        ({"ports": tuple(range(1, 66))}, "at most 64 ports"),
        ({"stamp": "x" * 257}, "at most 256"),
        ({"image": "x" * 1025}, "at most 1024"),
    ],
)
def test_a_launch_beyond_a_limit_is_refused_before_anything_is_sent(
    values: dict[str, Any], says: str
) -> None:
    check_refused_unsent(*a_cloud(), a_launch(OFFER, **values), says)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(404, BODIES["error_404_offer"]), errors.OfferGoneError),
        (answer(410, BODIES["error_410_offer"]), errors.OfferGoneError),
        (answer(400, BODIES["error_400_bid_but_instance_exists"]), errors.OutcomeUnknownError),
        (answer(400, {"success": False, "error": "invalid_args"}), errors.ProviderRefusedError),
        (answer(400, {"error": "x", "msg": "spend_rate_limit"}), errors.QuotaExceededError),
        (answer(404, {"msg": "2FA session expired"}), errors.ProviderRefusedError),
        (answer(400, "<html>"), errors.ProviderRefusedError),
        (answer(401, BODIES["error_401"]), errors.KeyRefusedError),
        (answer(429, BODIES["error_429"]), errors.ProviderBusyError),
        (answer(429, "too fast"), errors.ProviderBusyError),
        (answer(502, "<html>"), errors.OutcomeUnknownError),
        (answer(200, {"success": True}), errors.OutcomeUnknownError),
        (answer(200, "<html>"), errors.OutcomeUnknownError),
        (answer(200, {"success": False, "error": "no_such_ask"}), errors.OfferGoneError),
        (httpx.ConnectTimeout("late"), errors.ProviderBusyError),
        (httpx.RemoteProtocolError("cut"), errors.OutcomeUnknownError),
    ],
)
def test_a_create_that_fails_says_whether_something_was_made(
    given: Answer, error: type[Exception]
) -> None:
    check_create_fails(*a_cloud(given), OFFER, error)


def test_a_create_that_came_too_early_waits_out_the_penalty() -> None:
    cloud, _ = a_cloud(answer(429, BODIES["error_429"]), answer(429, None, retry_after="30"))

    waits = []
    for _ in range(2):
        with pytest.raises(errors.ProviderBusyError) as raised:
            cloud.create(a_launch(OFFER))
        waits.append(raised.value.retry_after_seconds)

    assert waits == [12.0, 30.0]
