"""Simulators with real boxes behind a real HTTP server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.boxes.base import ensure_base
from local.boxes.ladder import find_isolation
from local.boxes.spec import Isolation
from local.providers.fluence import FluenceSimulator
from local.providers.lambda_cloud import LambdaSimulator
from local.providers.runpod import RunpodSimulator
from local.providers.simulator import Simulator
from local.providers.vastai import VastSimulator
from tests.local.providers.client import (
    Client,
    FluenceClient,
    LambdaClient,
    RunpodClient,
    VastClient,
)
from tests.local.providers.serving import Serving


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def isolation(base: Path) -> Isolation:
    return find_isolation(base).isolation


@pytest.fixture
def serving(base: Path, isolation: Isolation, tmp_path: Path) -> Iterator[Serving]:
    served = Serving(base, isolation, tmp_path)
    yield served
    served.end_all()


@pytest.fixture
def serve(serving: Serving) -> Callable[..., Client]:
    """Start simulators in this process."""
    kinds: dict[str, tuple[type[Simulator], type[Client]]] = {
        "fluence": (FluenceSimulator, FluenceClient),
        "lambda": (LambdaSimulator, LambdaClient),
        "runpod": (RunpodSimulator, RunpodClient),
        "vastai": (VastSimulator, VastClient),
    }

    def start(name: str, **settings: Any) -> Client:
        simulator_type, client_type = kinds[name]
        _, url = serving.start(simulator_type, **settings)
        return client_type(url)

    return start


@pytest.fixture
def fluence(serve: Callable[..., FluenceClient]) -> FluenceClient:
    return serve("fluence")


@pytest.fixture
def vast(serve: Callable[..., VastClient]) -> VastClient:
    return serve("vastai")


@pytest.fixture
def runpod(serve: Callable[..., RunpodClient]) -> RunpodClient:
    return serve("runpod")


@pytest.fixture
def lambda_cloud(serve: Callable[..., LambdaClient]) -> LambdaClient:
    return serve("lambda")


@pytest.fixture(params=["fluence", "lambda", "runpod", "vastai"])
def provider(request: pytest.FixtureRequest, serve: Callable[..., Client]) -> Client:
    """Each simulator, for what all must do."""
    return serve(request.param)


@pytest.fixture(params=["fluence", "runpod", "vastai"])
def container(request: pytest.FixtureRequest, serve: Callable[..., Client]) -> Client:
    """Each simulator that rents out containers."""
    return serve(request.param)
