"""One file and one line make a provider: a toy one passes every test that the others pass.

The file is `toy_cloud.py`. Its line is added here, and taken away again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from podferry.adapters.providers.overview import rendered
from tests.contract.providers import (
    test_bad_ends,
    test_bids,
    test_every_fault,
    test_gpu_cloud,
    test_own_keys,
    test_quirks,
    test_ssh,
    test_traits,
    test_wrapped_clouds,
)
from tests.contract.providers.simulation import Simulation
from tests.contract.providers.toy import toy_market

SUITES = (
    test_bad_ends,
    test_bids,
    test_every_fault,
    test_gpu_cloud,
    test_own_keys,
    test_quirks,
    test_ssh,
    test_traits,
    test_wrapped_clouds,
)
Test = Callable[..., object]

# Fixtures of single suites.
bids = test_bids.bids
office = test_own_keys.office
clouds = test_wrapped_clouds.clouds
counts = test_wrapped_clouds.counts


@pytest.fixture(scope="module")
def running_simulation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    base = tmp_path_factory.getbasetemp() / "simulated-providers"
    base.mkdir(exist_ok=True)
    with toy_market(base) as simulation:
        yield simulation


def names_its_providers(test: Test) -> bool:
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    return any(mark.args[0] == "running_simulation" for mark in marks)


def general_tests(suite: ModuleType) -> dict[str, Test]:
    """Those that run for every provider."""
    return {
        name: found
        for name, found in vars(suite).items()
        if name.startswith("test_") and callable(found) and not names_its_providers(found)
    }


THE_CONTRACT = [test for suite in SUITES for test in general_tests(suite).items()]
globals().update(THE_CONTRACT)


def test_the_whole_contract_is_held_against_the_toy() -> None:
    here = Path(__file__)
    suites = {path.stem for path in here.parent.glob("test_*.py")} - {here.stem}

    assert suites == {suite.__name__.rpartition(".")[2] for suite in SUITES}
    assert len(dict(THE_CONTRACT)) == len(THE_CONTRACT), "a name hides another test"


def test_the_page_of_providers_tells_of_a_new_one(simulation: Simulation) -> None:
    assert "| `runpod` | `toy` | `vastai` |" in rendered()
    assert "## `toy`\n\nA toy market's containers" in rendered()
