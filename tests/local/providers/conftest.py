"""Simulators with real boxes behind a real HTTP server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.boxes.base import ensure_base
from local.boxes.ladder import find_isolation
from local.boxes.spec import Isolation
from local.providers.fleet import BoxHost
from local.providers.fluence import FluenceSimulator
from local.providers.lambda_cloud import LambdaSimulator
from local.providers.runpod import RunpodSimulator
from local.providers.vastai import VastSimulator
from local.providers.web import Server
from tests.local.providers.client import (
    KEY,
    Client,
    FluenceClient,
    LambdaClient,
    RunpodClient,
    VastClient,
)

BOOT_SECONDS = 0.05


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def isolation(base: Path) -> Isolation:
    return find_isolation(base).isolation


@pytest.fixture
def serve(base: Path, isolation: Isolation, tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Start simulators in this process."""
    running: list[tuple[Server, Any, threading.Thread]] = []
    kinds = {
        "fluence": (FluenceSimulator, FluenceClient),
        "lambda": (LambdaSimulator, LambdaClient),
        "runpod": (RunpodSimulator, RunpodClient),
        "vastai": (VastSimulator, VastClient),
    }

    def start(name: str, **settings: Any) -> Client:
        simulator_type, client_type = kinds[name]
        data = tmp_path / name
        host = BoxHost(base, isolation, data / "boxes")
        options = {"boot_seconds": BOOT_SECONDS} | settings
        simulator = simulator_type(data, host, KEY, **options)
        server = Server(simulator)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        running.append((server, simulator, thread))
        return client_type(server.url)

    yield start
    for server, simulator, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()
        simulator.close()


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
