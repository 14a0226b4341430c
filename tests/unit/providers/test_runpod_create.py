"""Creating a pod at RunPod: what is sent, and what each answer proves."""

from functools import partial
from typing import Any

import httpx
import pytest

from podferry.adapters.providers.runpod import RunpodCloud
from podferry.domain import errors
from tests.unit.providers.support import (
    KEY,
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

BODIES = bodies("runpod")
ID = "k3x9p0ab12cd"
REFERENCE = {
    "gpu_id": "NVIDIA GeForce RTX 4090",
    "count": 2,
    "cloud": "SECURE",
    "data_center": "EU-RO-1",
    "min_ram_gb_per_gpu": 24,
    "min_vcpus_per_gpu": 4,
}
OFFER = an_offer("runpod", REFERENCE)
a_cloud = partial(scripted, RunpodCloud)


def refused(status: int, detail: str) -> httpx.Response:
    return answer(status, {"title": "Refused", "status": status, "detail": detail, "errors": []})


def test_create_sends_what_the_documentation_asks_for() -> None:
    cloud, script = a_cloud(answer(201, BODIES["PROVISIONING"]))

    made = cloud.create(a_launch(OFFER, disk_gib=40, ssh_public_key="ssh-ed25519 AAAA me"))

    assert made == ID
    assert script.requests[0].method == "POST"
    assert script.requests[0].url.path == "/v2/pods"
    assert script.body() == {
        "name": STAMP,
        "image": "docker.io/example/gpu-base:1",
        "cloud": "SECURE",
        "gpu": {
            "id": "NVIDIA GeForce RTX 4090",
            "count": 2,
            "minRamPerGpu": 24,
            "minVcpuCountPerGpu": 4,
        },
        "dataCenterIds": ["EU-RO-1"],
        "disk": 43,
        "ports": ["22/tcp", "8443/tcp"],
        "env": {
            "RUNPOD_POD_USER": "0",
            "PF_TOKEN": "pfb_mach_1_secret",
            "PF_API": "https://api.example.com",
            "PUBLIC_KEY": "ssh-ed25519 AAAA me",
        },
        "entrypoint": ["/bin/sh"],
        "cmd": ["-c", "exec /.podferry/start"],
    }


def test_a_pod_of_the_community_is_asked_for_anywhere_and_small_disks_grow() -> None:
    reference = {name: value for name, value in REFERENCE.items() if name != "data_center"}
    cloud, script = a_cloud(answer(201, BODIES["PROVISIONING"]))

    cloud.create(a_launch(an_offer("runpod", reference | {"cloud": "COMMUNITY"}), disk_gib=5))

    assert "dataCenterIds" not in script.body()
    assert script.body()["disk"] == 20


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"bootstrap": "x" * 51_200}, "bytes, at most 51200"),
        ({"environment": {f"A{i}": "x" for i in range(50)}}, "at most 50"),
        ({"environment": {"bad-name": "x"}}, "bad-name"),
    ],
)
def test_a_launch_beyond_a_limit_is_refused_before_anything_is_sent(
    values: dict[str, Any], says: str
) -> None:
    check_refused_unsent(*a_cloud(), a_launch(OFFER, **values), says)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(400, BODIES["error_400_capacity"]), errors.OfferGoneError),
        (refused(400, "There are no longer any instances available with enough disk space."),
         errors.OfferGoneError),
        (refused(400, "No instance is currently available"), errors.OfferGoneError),
        (refused(400, "gpu and data center could not be placed"), errors.OfferGoneError),
        (refused(400, "Not enough GPUs in EU-RO-1"), errors.OfferGoneError),
        (refused(400, "Spend limit exceeded"), errors.QuotaExceededError),
        (refused(400, "Your account balance is too low"), errors.ProviderRefusedError),
        (refused(400, "exactly one of gpu or cpu must be set"), errors.ProviderRefusedError),
        (answer(402, BODIES["error_402"]), errors.ProviderRefusedError),
        (refused(403, "access denied"), errors.QuotaExceededError),
        (refused(404, "gpu type not found"), errors.OfferGoneError),
        (refused(413, "too large"), errors.ProviderRefusedError),
        (answer(422, BODIES["error_422"]), errors.ProviderRefusedError),
        (answer(401, BODIES["error_401"]), errors.KeyRefusedError),
        (answer(403, "<html>blocked</html>"), errors.ProviderBusyError),
        (answer(307, None, location="/v2/pods/"), errors.ProviderRefusedError),
        (answer(429, BODIES["error_429"], retry_after="7"), errors.ProviderBusyError),
        (answer(500), errors.OutcomeUnknownError),
        (answer(502, "<html>gateway</html>"), errors.OutcomeUnknownError),
        (answer(200, "<html>welcome</html>"), errors.OutcomeUnknownError),
        (answer(201, {"name": STAMP}), errors.OutcomeUnknownError),
        (httpx.ConnectError("refused"), errors.ProviderBusyError),
        (httpx.ReadTimeout("late"), errors.OutcomeUnknownError),
    ],
)  # fmt: skip
def test_case_p1_a_create_that_fails_says_whether_something_was_made(
    given: Answer, error: type[Exception]
) -> None:
    check_create_fails(*a_cloud(given), OFFER, error)


def test_a_refused_body_is_told_by_the_field(caplog: pytest.LogCaptureFixture) -> None:
    cloud, _ = a_cloud(answer(422, BODIES["error_422"]))

    with pytest.raises(errors.ProviderRefusedError, match="properties 'bogus' not allowed"):
        cloud.create(a_launch(OFFER))

    assert caplog.records == []


def test_case_x5_an_unknown_refusal_is_logged_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    token = "pfb_mach_01_0123456789abcdef"
    cloud, _ = a_cloud(refused(400, f"weird: key {KEY}, token {token}"))

    with pytest.raises(errors.ProviderRefusedError) as raised:
        cloud.create(a_launch(OFFER))

    said = caplog.records[0].__dict__["said"]
    assert said.startswith("weird: key [removed]")
    for secret in (KEY, token):
        assert secret not in said
        assert secret not in raised.value.detail
