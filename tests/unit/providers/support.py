"""A provider of canned answers, and builders for what adapters are given."""

import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from podferry.adapters.providers.registry import ProviderAdapter
from podferry.domain import errors
from podferry.domain.offer import BillingRule, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import LaunchRequest

STAMP = "pf-0a1b2c3d-0123456789abc"
KEY = "canary-provider-key-0123"
BASE_URL = "https://provider.test"

Answer = httpx.Response | Exception
Cloud = TypeVar("Cloud", bound=ProviderAdapter)


def bodies(provider: str) -> dict[str, Any]:
    """The example bodies of a provider, composed from its documentation."""
    path = Path(__file__).parent / "bodies" / f"{provider}.json"
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def changed(body: dict[str, Any], **values: Any) -> dict[str, Any]:
    return copy.deepcopy(body) | values


def answer(status: int, body: Any = None, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    if isinstance(body, str):
        return httpx.Response(status, text=body, headers=names)
    if body is None:
        return httpx.Response(status, headers=names)
    return httpx.Response(status, json=body, headers=names)


class Script:
    """Answers requests in turn and keeps them."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.client = httpx.Client(transport=httpx.MockTransport(self._handle))

    def body(self, index: int = 0) -> Any:
        return json.loads(self.requests[index].content)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        assert self._answers, f"one request too many: {request.method} {request.url}"
        given = self._answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given


def scripted(kind: Callable[..., Cloud], *answers: Answer) -> tuple[Cloud, Script]:
    """An adapter whose provider answers in this order."""
    script = Script(answers)
    return kind(KEY, BASE_URL, script.client), script


def an_offer(provider: str, reference: dict[str, Any], **values: Any) -> Offer:
    offer = Offer(
        provider=provider,
        reference=reference,
        host=None,
        kind=Kind.CONTAINER,
        market=Market.ON_DEMAND,
        gpu_name="RTX 4090",
        gpu_count=1,
        vram_mib_per_gpu=24564,
        vcpus=16.0,
        memory_mib=64_250,
        disk_gib=200,
        country="US",
        region=None,
        price_microusd_per_hour=362_500,
        billing=BillingRule(increment_seconds=1),
    )
    return replace(offer, **values)


def a_launch(offer: Offer, **values: Any) -> LaunchRequest:
    request = LaunchRequest(
        stamp=STAMP,
        offer=offer,
        image="docker.io/example/gpu-base:1",
        bootstrap="exec /.podferry/start",
        environment={"PF_TOKEN": "pfb_mach_1_secret", "PF_API": "https://api.example.com"},
        ports=(22, 8443),
    )
    return replace(request, **values)


def check_refused_unsent(
    cloud: ProviderAdapter, script: Script, launch: LaunchRequest, says: str
) -> None:
    """The adapter refuses the launch by itself: its provider hears nothing of it."""
    with pytest.raises(errors.ProviderRefusedError, match=says):
        cloud.create(launch)
    assert script.requests == []


def check_raises_exactly(error: type[Exception], call: Callable[[], object]) -> None:
    """An error of a class below `error` says something else, and is not taken for it."""
    with pytest.raises(errors.CloudError) as raised:
        call()
    assert type(raised.value) is error


def check_create_fails(
    cloud: ProviderAdapter, script: Script, offer: Offer, error: type[Exception]
) -> None:
    """A create ends in this error, and is never sent twice."""
    check_raises_exactly(error, lambda: cloud.create(a_launch(offer)))
    assert len(script.requests) == 1


def check_safe_calls_fail(
    a_cloud: Callable[[Answer], tuple[ProviderAdapter, Script]],
    given: Answer,
    provider_id: str,
    error: type[Exception],
) -> None:
    """Every call that only looks ends in this error when its provider answers like this."""
    calls: tuple[Callable[[ProviderAdapter], object], ...] = (
        lambda cloud: cloud.list_offers(Requirements()),
        lambda cloud: cloud.find(STAMP),
        lambda cloud: cloud.get(provider_id),
    )
    for call in calls:
        cloud, _ = a_cloud(given)
        check_raises_exactly(error, partial(call, cloud))
