"""The simulators' server answers one thing at a time and tells a bug from a lost answer."""

from __future__ import annotations

import http.client
import threading

import pytest

from local.providers.web import DropConnectionError, Response, Router, Server, json_response
from tests.local.providers.client import ask


class Application:
    def handle(self, request):
        match request.path:
            case "/drop":
                raise DropConnectionError
            case "/bug":
                raise ValueError("a bug")
            case "/nothing":
                return Response(204)
        return json_response(200, {"query": request.query, "body": request.body.decode()})


@pytest.fixture
def url():
    server = Server(Application())
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server.url
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_bug_is_a_500_and_is_told_on_standard_error(url, capfd):
    answer = ask(url, "GET", "/bug")
    assert answer.status == 500
    assert b"simulator itself" in answer.body
    assert "ValueError: a bug" in capfd.readouterr().err


def test_a_dropped_connection_has_no_answer(url):
    with pytest.raises(http.client.RemoteDisconnected):
        ask(url, "GET", "/drop")


def test_one_connection_carries_many_requests(url):
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    for path in ("/nothing", "/a?x=1&y=", "/b"):
        connection.request("POST", path, b"hello")
        response = connection.getresponse()
        body = response.read()
        assert (response.status, body) == (204, b"") if path == "/nothing" else body
    connection.close()
    answer = ask(url, "GET", "/a?x=1&y=%20")
    assert answer.json == {"query": {"x": "1", "y": " "}, "body": ""}


def test_routes_are_found_by_method_and_whole_path():
    def handler(*_):
        return Response(200)

    router = Router((("GET", r"/a/(\d+)", handler), ("DELETE", r"/a/(\d+)", handler)))
    assert router.find("GET", "/a/12").groups == ("12",)
    assert router.find("PUT", "/a/12").allowed == ("GET", "DELETE")
    assert router.find("GET", "/a/12/b").handler is None
    assert router.find("GET", "/a/12/b").allowed == ()
