"""Simulators in this process, each behind a real HTTP server."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.boxes.spec import Isolation
from local.providers.fleet import BoxHost
from local.providers.simulator import Setup, Simulator
from local.providers.web import Server
from tests.local.providers.client import KEY

BOOT_SECONDS = 0.05


@dataclass
class Serving:
    """Starts simulators, and ends them all."""

    base: Path
    isolation: Isolation
    data: Path
    _running: list[tuple[Server, Simulator, threading.Thread]] = field(default_factory=list)

    def start(self, kind: type[Simulator], **settings: Any) -> tuple[Simulator, str]:
        """A simulator and its address; one of a kind that has ended is the same one again."""
        data = self.data / kind.name
        options = {"boot_seconds": BOOT_SECONDS, "price_file": None} | settings
        host = BoxHost(self.base, self.isolation, data / "boxes")
        simulator = kind(Setup(data=data, host=host, key=KEY, **options))
        server = Server(simulator)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        self._running.append((server, simulator, thread))
        return simulator, server.url

    def end_all(self) -> None:
        while self._running:
            server, simulator, thread = self._running.pop()
            server.shutdown()
            thread.join()
            server.server_close()
            simulator.close()
