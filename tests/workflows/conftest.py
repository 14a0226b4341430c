"""A fresh world for each test."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def _no_network(socket_disabled: None) -> None:
    """Everything happens in this process."""
