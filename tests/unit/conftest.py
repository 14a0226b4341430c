"""Unit tests touch no network: a socket that is opened fails the test.

A test that is about sockets says so with `@pytest.mark.enable_socket`.
"""

import pytest
from pytest_socket import disable_socket, enable_socket


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest):
    if request.node.get_closest_marker("enable_socket") is None:
        disable_socket()
    yield
    enable_socket()
