"""What a failed call means: every error of the HTTP client, every status, real sockets."""

import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from podferry.adapters.providers.wire import (
    ProviderHTTP,
    WireModel,
    create_call,
    retry_after_seconds,
    safe_call,
)
from podferry.domain import errors
from tests.unit.providers.support import BASE_URL, KEY, Script, answer


def all_subclasses(kind: type[Exception]) -> list[type[Exception]]:
    return [kind, *(deeper for sub in kind.__subclasses__() for deeper in all_subclasses(sub))]


FOREIGN = [*all_subclasses(httpx.RequestError), httpx.InvalidURL]
BAD_ADDRESS = {httpx.UnsupportedProtocol, httpx.InvalidURL}
NOTHING_SENT = {httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout}


class Shape(WireModel):
    count: int


def a_wire(*answers: httpx.Response, base_url: str = BASE_URL) -> ProviderHTTP:
    return ProviderHTTP("acme", base_url, {"X-API-KEY": KEY}, Script(answers).client)


@pytest.mark.parametrize("foreign", FOREIGN)
def test_no_error_of_the_http_client_leaves_a_safe_call(foreign: type[Exception]) -> None:
    expected = errors.ProviderRefusedError if foreign in BAD_ADDRESS else errors.ProviderBusyError

    with pytest.raises(errors.CloudError) as raised, safe_call("acme"):
        raise foreign("x")

    assert type(raised.value) is expected
    assert isinstance(raised.value.__cause__, foreign)


@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_create_call_is_busy_only_if_surely_nothing_was_sent(foreign: type[Exception]) -> None:
    expected: type[errors.CloudError] = errors.OutcomeUnknownError
    if foreign in NOTHING_SENT:
        expected = errors.ProviderBusyError
    if foreign in BAD_ADDRESS:
        expected = errors.ProviderRefusedError

    with pytest.raises(errors.CloudError) as raised, create_call("acme"):
        raise foreign("x")

    assert type(raised.value) is expected


@pytest.mark.parametrize(
    ("status", "safe", "create"),
    [
        (301, errors.ProviderRefusedError, errors.ProviderRefusedError),
        (401, errors.KeyRefusedError, errors.KeyRefusedError),
        (403, errors.KeyRefusedError, errors.KeyRefusedError),
        (408, errors.ProviderBusyError, errors.OutcomeUnknownError),
        (429, errors.ProviderBusyError, errors.ProviderBusyError),
        (500, errors.ProviderBusyError, errors.OutcomeUnknownError),
        (503, errors.ProviderBusyError, errors.OutcomeUnknownError),
    ],
)
def test_statuses_that_mean_the_same_everywhere(
    status: Any, safe: type[Exception], create: type[Exception]
) -> None:
    wire = a_wire(answer(status), answer(status))

    with pytest.raises(errors.CloudError) as raised:
        wire.send("GET", "/x")
    assert type(raised.value) is safe
    with pytest.raises(errors.CloudError) as raised:
        wire.send_create("POST", "/x", body={})
    assert type(raised.value) is create


@pytest.mark.parametrize("status", [200, 204, 400, 404, 409, 410, 422])
def test_other_statuses_are_left_to_the_provider(status: Any) -> None:
    wire = a_wire(answer(status), answer(status))

    assert wire.send("GET", "/x").status_code == status
    assert wire.send_create("POST", "/x", body={}).status_code == status


def test_a_busy_provider_says_when_to_come_back() -> None:
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)

    assert retry_after_seconds(answer(429)) is None
    assert retry_after_seconds(answer(429, None, retry_after="7")) == 7.0
    assert retry_after_seconds(answer(429, None, retry_after="4.5")) == 4.5
    assert retry_after_seconds(answer(429, None, retry_after="soon")) is None
    assert 50 < (retry_after_seconds(answer(429, None, retry_after=in_a_minute)) or 0) <= 60


def test_an_unreadable_answer_is_busy_and_its_words_are_in_no_trace() -> None:
    wire = a_wire()

    with pytest.raises(errors.ProviderBusyError) as raised:
        wire.read(answer(200, {"count": "canary"}), Shape)

    assert "canary" not in f"{raised.value} {raised.value.__cause__}"


def test_an_address_that_is_none_is_a_refusal() -> None:
    for base_url in ("provider.test", "ftp://provider.test", "http://[::1"):
        wire = ProviderHTTP("acme", base_url, {})
        with pytest.raises(errors.ProviderRefusedError, match="base_url"):
            wire.send("GET", "/x")


@pytest.fixture
def hanging_up() -> Iterator[int]:
    """A port where requests are read and never answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(timeout=5)


@pytest.mark.enable_socket
def test_case_p1_a_create_that_is_cut_off_may_have_made_something(hanging_up: int) -> None:
    wire = ProviderHTTP("acme", f"http://127.0.0.1:{hanging_up}", {})

    with pytest.raises(errors.OutcomeUnknownError):
        wire.send_create("POST", "/x", body={})


@pytest.mark.enable_socket
def test_a_create_that_reached_nobody_made_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    wire = ProviderHTTP("acme", f"http://127.0.0.1:{port}", {})

    with pytest.raises(errors.ProviderBusyError, match="nothing was rented"):
        wire.send_create("POST", "/x", body={})
