"""The server's end of the pipe to the agent."""

import asyncio
import sys
from collections.abc import Callable

from podferry_agent.errors import WireError
from podferry_agent.fields import Fields
from podferry_agent.ssh.messages import decode, encode

_LINE_LIMIT = 1024 * 1024


class Link:
    """Reads lines from stdin, writes lines to stdout.

    Writing may block, but not for long: the agent reads all the time, and lines are short.
    """

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader(limit=_LINE_LIMIT)

    async def open(self) -> None:
        protocol = asyncio.StreamReaderProtocol(self._reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)

    async def expect(self, kind: str) -> Fields | None:
        """The next message, which must be of this kind; None when the agent has gone.

        Raises:
            WireError: It is another one, or none at all.
        """
        message = await self._receive()
        if message is None:
            return None
        found, fields = message
        if found != kind:
            raise WireError(f"the SSH server waits for {kind}, not for {found}")
        return fields

    async def follow(self, handlers: dict[str, Callable[[Fields], None]]) -> None:
        """Hand each message to the handler of its kind, until the agent has gone."""
        while (message := await self._receive()) is not None:
            kind, fields = message
            if kind not in handlers:
                raise WireError(f"the SSH server knows no message {kind}")
            handlers[kind](fields)

    async def _receive(self) -> tuple[str, Fields] | None:
        line = await self._reader.readline()
        return decode(line) if line.endswith(b"\n") else None

    def send(self, kind: str, content: object) -> None:
        sys.stdout.buffer.write(encode(kind, content))
        sys.stdout.buffer.flush()
