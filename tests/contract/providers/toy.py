"""The toy market as a seventh provider, for as long as a test wants it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podferry.adapters.providers.registry import PROVIDERS
from tests.contract.providers.simulation import Simulation, start_simulation

LINE = "tests.contract.providers.toy_cloud:ToyCloud"
MARKET = "tests.contract.providers.toy_provider"


@contextmanager
def toy_market(directory: Path) -> Iterator[Simulation]:
    """Adds the line to the registry, and takes it away again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROVIDERS, "toy", LINE)
        simulation = start_simulation("toy", directory, MARKET)
        yield simulation
        simulation.stop()
