"""The model plays in the world of the workflow tests."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "workflows")]


@pytest.fixture(autouse=True)
def _no_network(socket_disabled: None) -> None:
    """Everything happens in this process."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of requests are answered."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
