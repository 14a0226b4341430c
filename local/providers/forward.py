"""Carry connections from a public port of an instance to the port inside its box.

Boxes share the host's network, so the inside port is on this machine's loopback too.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

_LOOPBACK = "127.0.0.1"
_CHUNK = 64 * 1024


class Forwarder:
    """All forwarded ports of one simulator, served by one thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._servers: dict[int, asyncio.Server] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def open(self, inside: int, wanted: int = 0) -> int:
        """Forward a public port to `inside`; `wanted` again if it is free, else another."""
        return int(self._call(self._open(inside, wanted)).result())

    def close_port(self, outside: int) -> None:
        self._call(self._close_port(outside)).result()

    def close(self) -> None:
        self._call(self._close_all()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _open(self, inside: int, wanted: int) -> int:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _carry(inside, reader, writer)

        try:
            server = await asyncio.start_server(connected, _LOOPBACK, wanted)
        except OSError:
            server = await asyncio.start_server(connected, _LOOPBACK, 0)
        outside = int(server.sockets[0].getsockname()[1])
        self._servers[outside] = server
        return outside

    async def _close_port(self, outside: int) -> None:
        server = self._servers.pop(outside, None)
        if server is not None:
            server.close()

    async def _close_all(self) -> None:
        for outside in list(self._servers):
            await self._close_port(outside)
        current = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not current]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def _carry(inside: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        box_reader, box_writer = await asyncio.open_connection(_LOOPBACK, inside)
    except OSError:
        # Nothing listens in the box: the caller sees a closed connection, as on a real host.
        writer.close()
        return
    try:
        async with asyncio.TaskGroup() as pumps:
            pumps.create_task(_pump(reader, box_writer))
            pumps.create_task(_pump(box_reader, writer))
    except* OSError:
        # One end is gone for good; the other would wait for ever, and nobody take what it sends.
        for each in (writer, box_writer):
            each.transport.abort()
    finally:
        for each in (writer, box_writer):
            each.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
