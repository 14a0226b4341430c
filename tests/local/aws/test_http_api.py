"""The HTTP API behind the front door: routes, authorizer, CORS, speed."""

import json
import statistics
import time

import urllib3

from local.aws.deploy import Outputs

from .conftest import EmbeddedAWS

GOOD = {"authorization": "Bearer good"}


def test_request_reaches_the_function_with_the_authorizers_context(
    server: EmbeddedAWS, outputs: Outputs, http: urllib3.PoolManager
) -> None:
    answer = http.request("GET", f"{server.api_front}/v1/pods/p1?limit=5", headers=GOOD)

    body = json.loads(answer.data)
    assert answer.status == 200
    assert body["path"] == "/v1/pods/p1"
    assert body["query"] == {"limit": "5"}
    assert body["authorizer"]["lambda"] == {
        "account_id": "acct_1",
        "scopes": "pods:read pods:write",
    }
    assert body["layer"] == "hello from the layer"


def test_request_without_any_credentials_still_asks_the_authorizer(
    server: EmbeddedAWS, outputs: Outputs, http: urllib3.PoolManager
) -> None:
    assert http.request("GET", f"{server.api_front}/v1/pods").status == 403


def test_open_route_needs_no_authorizer(
    server: EmbeddedAWS, outputs: Outputs, http: urllib3.PoolManager
) -> None:
    assert http.request("GET", f"{server.api_front}/open").status == 200


def test_functions_do_not_see_the_environment_of_the_shell(
    server: EmbeddedAWS, outputs: Outputs, http: urllib3.PoolManager
) -> None:
    body = json.loads(http.request("GET", f"{server.api_front}/open").data)

    assert body["secrets"] == []


def test_browser_preflight_is_answered(
    server: EmbeddedAWS, outputs: Outputs, http: urllib3.PoolManager
) -> None:
    asks = {"origin": "https://console.example", "access-control-request-method": "POST"}
    answer = http.request("OPTIONS", f"{server.api_front}/v1/pods", headers=asks)

    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == "https://console.example"


def test_warm_authorized_call_takes_less_than_40_ms(
    server: EmbeddedAWS, outputs: Outputs, http: urllib3.PoolManager
) -> None:
    times = []
    for _ in range(30):
        started = time.perf_counter()
        http.request("GET", f"{server.api_front}/v1/pods", headers=GOOD)
        times.append(time.perf_counter() - started)

    assert statistics.median(times) < 0.040
