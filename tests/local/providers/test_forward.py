"""What passes through a public port, and what happens when one side is gone."""

import socket
import struct
from collections.abc import Iterator

import pytest

from local.providers.forward import Forwarder


@pytest.fixture
def forwarder() -> Iterator[Forwarder]:
    one = Forwarder()
    yield one
    one.close()


@pytest.fixture
def box() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def connected(forwarder: Forwarder, box: socket.socket) -> tuple[socket.socket, socket.socket]:
    """The user's end, and the box's."""
    outside = forwarder.open(box.getsockname()[1])
    user = socket.create_connection(("127.0.0.1", outside), timeout=10)
    inner, _ = box.accept()
    inner.settimeout(10)
    return user, inner


def test_both_ways_are_carried_and_one_may_end_before_the_other(
    forwarder: Forwarder, box: socket.socket
) -> None:
    user, inner = connected(forwarder, box)
    with user, inner:
        user.sendall(b"question")
        user.shutdown(socket.SHUT_WR)
        assert inner.makefile("rb").read() == b"question"
        inner.sendall(b"answer")
        inner.close()
        assert user.makefile("rb").read() == b"answer"


def test_who_waits_for_a_box_that_was_killed_is_told(
    forwarder: Forwarder, box: socket.socket
) -> None:
    """An upload whose window is full sends nothing more, so it is told by what it receives."""
    user, inner = connected(forwarder, box)
    with user:
        user.sendall(b"x" * 1000)
        assert inner.recv(1) == b"x"
        # As of a process that is killed with data unread.
        inner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        inner.close()
        assert user.recv(1) == b""
