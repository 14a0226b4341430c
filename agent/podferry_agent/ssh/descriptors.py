"""Reads and writes pipes and terminals without blocking the server's one thread."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any

CHUNK = 64 * 1024


class Descriptor:
    """One end of a pipe, or the master side of a terminal."""

    def __init__(self, number: int) -> None:
        os.set_blocking(number, False)
        self.number = number
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_closed = False

    async def read(self) -> bytes:
        """Up to `CHUNK` bytes; none at the end."""
        loop = asyncio.get_running_loop()
        while not self._is_closed:
            try:
                return os.read(self.number, CHUNK)
            except BlockingIOError:
                await self._wait(loop.add_reader, loop.remove_reader)
            except OSError:
                # EIO: nothing is left that has this terminal open.
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        """All of it; what nobody reads any more is dropped, as a pipe does it."""
        loop = asyncio.get_running_loop()
        rest = memoryview(data)
        while rest and not self._is_closed:
            try:
                rest = rest[os.write(self.number, rest) :]
            except BlockingIOError:
                await self._wait(loop.add_writer, loop.remove_writer)
            except OSError:
                return

    def close(self) -> None:
        """Wakes whoever waits; may be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.number)
        loop.remove_writer(self.number)
        os.close(self.number)
        for waiter in self._waiting:
            _wake(waiter)

    async def _wait(
        self, add: Callable[[int, Callable[..., Any], Any], None], remove: Callable[[int], Any]
    ) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        add(self.number, _wake, waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)
            if not self._is_closed:
                # After a close the number may belong to another file.
                remove(self.number)


def _wake(waiter: "asyncio.Future[None]") -> None:
    with contextlib.suppress(asyncio.InvalidStateError):
        waiter.set_result(None)
