"""Runs the shimmed emulator under a web server until it is told to stop.

Import this module only after `server` has set the environment.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import urllib.request
from functools import partial

from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack import app as ministack_app

from local.aws import shims
from local.aws.data_dir import Listeners
from local.aws.settings import Settings
from local.aws.shims import runtime_client

START_DEADLINE_SECONDS = 30


def run(settings: Settings, listeners: Listeners) -> None:
    """Serves both ports; prints one JSON line when the APIs answer."""
    logging.getLogger("persistence").setLevel(logging.ERROR)
    shims.apply_all(settings)
    asyncio.run(_serve(settings, listeners))
    runtime_client.end_workers()
    sys.stdout.flush()
    sys.stderr.flush()
    # The emulator's worker threads are not daemons and may sit in a long call: do not join them.
    os._exit(0)


async def _serve(settings: Settings, listeners: Listeners) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if settings.end_with is not None:
        # Readable as soon as that process has ended, also by SIGKILL.
        loop.add_reader(os.pidfd_open(settings.end_with), stop.set)
    config = Config()
    config.bind = [f"fd://{listeners.api.fileno()}", f"fd://{listeners.front.fileno()}"]
    config.keep_alive_timeout = 75
    config.graceful_timeout = 0.5
    config.accesslog = None
    config.loglevel = "WARNING"
    announce = asyncio.create_task(_announce(settings))
    # `ministack_app.app` is read here, not imported by name: the front door shim replaces it.
    await serve(ministack_app.app, config, shutdown_trigger=stop.wait)
    announce.cancel()


async def _announce(settings: Settings) -> None:
    deadline = asyncio.get_running_loop().time() + START_DEADLINE_SECONDS
    while not await asyncio.to_thread(partial(_is_healthy, settings.endpoint)):
        if asyncio.get_running_loop().time() > deadline:
            print("local.aws: the emulator does not answer its health check", file=sys.stderr)
            os._exit(1)
        await asyncio.sleep(0.02)
    ready = {"endpoint": settings.endpoint, "api_front": settings.api_front, "pid": os.getpid()}
    print(json.dumps(ready), flush=True)


def _is_healthy(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
