"""Each mischief does to a request what it says, and nothing to the others."""

import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from local.providers.web import Request, Response, Server
from tests.chaos.proxy import Link, Mischief


class Echo:
    """Answers with what it was sent, and remembers it."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def handle(self, request: Request) -> Response:
        self.seen.append(f"{request.method} {request.path} {request.body.decode()}".strip())
        return Response(200, request.body, headers={"X-Count": str(len(self.seen))})


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def link(echo: Echo) -> Iterator[Link]:
    server = Server(echo)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    link = Link("test", lambda: server.url)
    try:
        yield link
    finally:
        link.close()
        server.shutdown()
        server.server_close()
        thread.join()


def post(link: Link, body: str = "a") -> httpx.Response:
    return httpx.post(link.url + "/x", content=body, trust_env=False)


def trouble(link: Link, mischief: Mischief, delay: float = 0.1) -> None:
    link.trouble(mischief, seconds=30, share=1.0, delay=delay)


def until(is_reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_reached() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_without_trouble_a_request_passes_as_it_is(link: Link, echo: Echo) -> None:
    answer = post(link)
    assert (answer.status_code, answer.text, answer.headers["x-count"]) == (200, "a", "1")
    assert echo.seen == ["POST /x a"]


def test_a_cut_request_never_arrives(link: Link, echo: Echo) -> None:
    trouble(link, Mischief.CUT)
    with pytest.raises(httpx.TransportError):
        post(link)
    link.clear(seed=1)
    post(link, "b")
    assert echo.seen == ["POST /x b"]


def test_a_swallowed_answer_belongs_to_a_request_that_arrived(link: Link, echo: Echo) -> None:
    trouble(link, Mischief.SWALLOW)
    with pytest.raises(httpx.TransportError):
        post(link)
    assert echo.seen == ["POST /x a"]


def test_a_repeated_request_arrives_twice_and_is_answered_once(link: Link, echo: Echo) -> None:
    trouble(link, Mischief.REPEAT)
    assert post(link).headers["x-count"] == "2"
    assert echo.seen == ["POST /x a"] * 2


def test_an_echo_arrives_after_its_answer(link: Link, echo: Echo) -> None:
    trouble(link, Mischief.ECHO)
    assert post(link).headers["x-count"] == "1"
    until(lambda: len(echo.seen) == 2)
    assert echo.seen == ["POST /x a"] * 2


def test_a_delayed_request_is_late(link: Link) -> None:
    trouble(link, Mischief.DELAY, delay=0.3)
    began = time.monotonic()
    post(link)
    assert time.monotonic() - began >= 0.3


def test_a_request_that_is_held_back_is_overtaken(link: Link, echo: Echo) -> None:
    trouble(link, Mischief.REORDER)
    first = threading.Thread(target=post, args=(link, "first"))
    first.start()
    until(lambda: link.held == 1)
    link.clear(seed=1)
    post(link, "second")
    first.join()
    assert echo.seen == ["POST /x second", "POST /x first"]


def test_a_target_that_is_down_breaks_the_connection(echo: Echo) -> None:
    server = Server(echo)
    url = server.url
    server.server_close()
    link = Link("test", lambda: url)
    try:
        with pytest.raises(httpx.TransportError):
            post(link)
    finally:
        link.close()
