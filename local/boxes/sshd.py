"""The SSH server of a simulated machine that is rented bare: the provider's, not the pod's.

It runs inside the machine's box, as a process of it, on a real socket of this machine's loopback
device. It lets one public key in and hands what it is asked to the box's shell. SIGTERM, which
`systemctl stop ssh` sends, closes the door; who is in stays in, as with OpenSSH.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import asyncssh

from local.boxes.door import Door
from local.boxes.vm import PID_FILE

_LOOPBACK = "127.0.0.1"
_CHUNK = 16 * 1024
_KEY_TYPE = "ssh-ed25519"

Process = asyncssh.SSHServerProcess[bytes]


class _Machine:
    """What the visits of one machine share."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.allowed = asyncssh.import_public_key(door.public_key).public_data
        self.inside: set[_Visit] = set()
        self.has_dropped = False
        self.left = asyncio.Event()
        """Set whenever somebody has left who was in."""

    async def serve(self) -> None:
        await asyncio.sleep(self.door.late_seconds)
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        if self.door.changes_key:
            await self._listen_until(self.left)
        await self._listen_until(stop)
        while self.inside:
            self.left.clear()
            await self.left.wait()

    async def _listen_until(self, event: asyncio.Event) -> None:
        """Open, with a host key of its own."""
        listener = await asyncssh.create_server(
            lambda: _Visit(self),
            _LOOPBACK,
            self.door.port,
            server_host_keys=[asyncssh.generate_private_key(_KEY_TYPE)],
            process_factory=self._carry_out,
            encoding=None,
        )
        await event.wait()
        listener.close()

    async def _carry_out(self, process: Process) -> None:
        child = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            process.command or "exit 0",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        given = await self._given(process)
        stdout, stderr = await child.communicate(given)
        process.stdout.write(stdout)
        process.stderr.write(stderr)
        process.exit(child.returncode or 0)
        if given and self.door.dies:
            # The first process passes for the machine's power supply.
            os.kill(1, signal.SIGTERM)

    async def _given(self, process: Process) -> bytes:
        """The standard input, or what has arrived of it when a fault ends the connection."""
        given = b""
        while part := await process.stdin.read(_CHUNK):
            given += part
            if self.door.drops and not self.has_dropped:
                self.has_dropped = True
                process.channel.get_connection().abort()
                return given[: len(given) // 2]
        return given


class _Visit(asyncssh.SSHServer):
    """One connection."""

    def __init__(self, machine: _Machine) -> None:
        self._machine = machine

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        is_user = username == self._machine.door.user
        return is_user and key.public_data == self._machine.allowed

    def auth_completed(self) -> None:
        self._machine.inside.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncssh's
        if self in self._machine.inside:
            self._machine.inside.remove(self)
            self._machine.left.set()


if __name__ == "__main__":
    Path(PID_FILE).write_text(str(os.getpid()))
    asyncio.run(_Machine(Door.load()).serve())
