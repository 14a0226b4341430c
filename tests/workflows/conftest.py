"""A fresh world for each test."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from world import World

from podferry.domain.account import Account


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def _no_network(socket_disabled: None) -> None:
    """Everything happens in this process."""


@pytest.fixture
def stranger(world: World) -> Account:
    account, _, _ = world.app.accounts.create("stranger")
    return account
