"""The control surface is for tests on this machine, and says what is wrong."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.local.providers.client import ask, wait_for


def test_a_page_in_a_browser_cannot_use_the_control_surface(fluence):
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example:80"}):
        answer = ask(fluence.url, "GET", "/_sim/state", headers=headers)
        assert answer.status == 403


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "nothing", None, 404),
        ("POST", "instances/none/reclaim", {}, 404),
        ("POST", "instances/none/crash", {}, 404),
        ("GET", "instances/none/log", None, 404),
        ("POST", "clock", {"advance_seconds": -1}, 400),
        ("POST", "clock", {}, 400),
        ("POST", "clock", b"{", 400),
        ("POST", "balance", {"micros": "x"}, 400),
    ],
)
def test_bad_control_requests_are_refused(fluence, method, path, body, status):
    answer = ask(fluence.url, method, f"/_sim/{path}", body)
    assert answer.status == status
    assert answer.json["error"]


def test_bad_requests_for_an_instance_are_refused(fluence):
    instance = fluence.launch()
    where = f"/_sim/instances/{instance}"
    assert ask(fluence.url, "POST", where + "/reclaim", {"notice": "loud"}).status == 400
    fluence.wait_phase(instance, "running")
    assert ask(fluence.url, "POST", where + "/exec", {"argv": "ls"}).status == 400
    assert ask(fluence.url, "POST", where + "/resume").status == 409
    fluence.delete(instance)
    assert ask(fluence.url, "POST", where + "/exec", {"argv": ["ls"]}).status == 409
    assert ask(fluence.url, "POST", where + "/crash").status == 409


def test_the_state_tells_what_is_true_whatever_lists_say(fluence):
    fluence.fault(listing_lag_seconds=60)
    instance = fluence.launch()
    fluence.wait_phase(instance, "running")
    state = fluence.state(instance)
    assert fluence.list_ids() == []
    assert (state["name"], state["micros_per_hour"]) == ("pf-test", 1_500_000)
    assert state["box_is_alive"]
    assert state["box_pid"] > 1


def test_a_public_port_reaches_the_port_in_the_box(fluence):
    with socket.create_server(("127.0.0.1", 0)) as free:
        inside = free.getsockname()[1]
    script = (
        f"import socket; server = socket.create_server(('127.0.0.1', {inside}))\n"
        "while True:\n"
        "    peer, _ = server.accept()\n"
        "    while data := peer.recv(65536): peer.sendall(data.upper())\n"
        "    peer.close()\n"
    )
    instance = fluence.launch(
        startup_command=f'exec python3 -c "{script}"',
        expose=[{"port": str(inside), "protocol": "tcp"}],
    )
    fluence.wait_phase(instance, "running")
    outside = fluence.state(instance)["external_ports"][f"{inside}/tcp"]

    def echo(text: bytes) -> bytes:
        received = b""
        with socket.create_connection(("127.0.0.1", outside), timeout=5) as connection:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                received += part
        return received

    def answer() -> bytes:
        try:
            return echo(b"hello")
        except OSError:
            # Nothing listens in the box yet, so the connection is closed at once.
            return b""

    assert wait_for(answer) == b"HELLO"
    assert echo(b"x" * 1_000_000) == b"X" * 1_000_000
    fluence.delete(instance)
    with pytest.raises(ConnectionRefusedError):
        echo(b"too late")


def test_many_requests_at_once_are_answered(fluence):
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(fluence.call("GET", "/gpu/plans/").status))
        for _ in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 40


def test_a_body_that_is_too_large_is_refused(fluence):
    assert fluence.call("POST", "/gpu/instances/", b"x" * (4 * 1024 * 1024 + 1)).status == 413
