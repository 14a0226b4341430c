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
from local.providers.vastai import VastSimulator
from local.providers.web import Server
from tests.local.providers.client import KEY, Client, FluenceClient, VastClient

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
    kinds = {"fluence": (FluenceSimulator, FluenceClient), "vastai": (VastSimulator, VastClient)}

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


@pytest.fixture(params=["fluence", "vastai"])
def provider(request: pytest.FixtureRequest, serve: Callable[..., Client]) -> Client:
    """Either simulator, for what both must do."""
    return serve(request.param)
