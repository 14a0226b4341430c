"""Run one simulated provider: `python -m local.providers fluence --data DIRECTORY --key KEY`.

Prints one line of JSON with its address, then serves until SIGTERM, SIGINT, or the end of the
process that started it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from local.boxes.base import BaseBuildError, ensure_base
from local.boxes.ladder import NoIsolationError, find_isolation
from local.providers.catalog import PriceFileError
from local.providers.fleet import BoxHost
from local.providers.registry import SIMULATORS
from local.providers.simulator import Setup, Simulator
from local.providers.store import DataDirectoryBusyError
from local.providers.web import Server

_CHECK_SECONDS = 0.5


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    parent = os.getppid()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        simulator = _make(options)
    except (BaseBuildError, NoIsolationError, PriceFileError, DataDirectoryBusyError) as error:
        sys.stderr.write(f"{options.provider}: {error}\n")
        return 2
    try:
        server = Server(simulator, options.port)
    except OSError as error:
        simulator.close()
        sys.stderr.write(f"{options.provider}: port {options.port}: {error}; use --port 0\n")
        return 2
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    _announce(options.provider, server.url, simulator.api_key)
    while not stop.wait(_CHECK_SECONDS) and os.getppid() == parent:
        simulator.settle_now()
    server.shutdown()
    server.server_close()
    simulator.close()
    return 0


def _make(options: argparse.Namespace) -> Simulator:
    path, _ = SIMULATORS[options.provider]
    module, _, name = path.partition(":")
    kind: type[Simulator] = getattr(import_module(module), name)
    data = options.data.resolve()
    base = ensure_base((options.base_cache or data).resolve())
    ladder = find_isolation(base, allow_no_isolation=options.allow_no_isolation)
    sys.stderr.write(ladder.describe() + "\n")
    return kind(
        Setup(
            data=data,
            host=BoxHost(base, ladder.isolation, data / "boxes"),
            key=options.key,
            boot_seconds=options.boot_seconds,
            price_file=options.price_file,
        )
    )


def _announce(provider: str, url: str, api_key: str) -> None:
    _, api_path = SIMULATORS[provider]
    line = {
        "provider": provider,
        "url": url,
        "api_url": url + api_path,
        "control_url": f"{url}/_sim",
        "api_key": api_key,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m local.providers", description=__doc__)
    parser.add_argument("provider", choices=sorted(SIMULATORS))
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--data", type=Path, required=True, help="where instances are remembered")
    parser.add_argument("--key", required=True, help="the API key that is accepted")
    parser.add_argument("--boot-seconds", type=float, default=0.3)
    parser.add_argument("--price-file", type=Path, help="JSON with other prices and stock")
    parser.add_argument("--base-cache", type=Path, help="share a base with other simulators")
    parser.add_argument(
        "--allow-no-isolation", action="store_true", help="run boxes as plain host processes"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
