"""Shells and commands: moves bytes between a client's channel and a program of the box."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncssh

from podferry_agent.ssh.children import Child, Children, Program, TerminalSize
from podferry_agent.ssh.descriptors import CHUNK, Descriptor
from podferry_agent.ssh.login import Login

_LOG = logging.getLogger(__name__)
# After a shell at a terminal has ended, what it left in the background may hold the terminal.
_LINGER_SECONDS = 0.5
_CANNOT_START = 126
_NO_SUCH_SUBSYSTEM = 127
# Set by the client; everything else of it stays out, as with OpenSSH's AcceptEnv.
_WELCOME = ("LANG", "LC_", "COLORTERM", "TERM_PROGRAM")

Process = asyncssh.SSHServerProcess[bytes]
Writer = asyncssh.SSHWriter[bytes]
Awaited = asyncio.Future[Any]


class Sessions:
    """The handler of every shell and command; `make_login` says who they run as."""

    def __init__(self, make_login: Callable[[], Login], children: Children) -> None:
        self._make_login = make_login
        self._children = children
        self._attached: set[Child] = set()

    async def run(self, process: Process) -> None:
        """One session, from its start to its exit status."""
        if process.subsystem is not None:
            await _refuse(process, f"no subsystem {process.subsystem}", _NO_SUCH_SUBSYSTEM)
            return
        try:
            child = self._start(process)
        except OSError as error:
            await _refuse(process, f"cannot start: {error}", _CANNOT_START)
            return
        with self._attach(child):
            await _carry(process, child)

    def kill_all(self) -> None:
        for child in self._attached:
            child.kill()

    @contextmanager
    def _attach(self, child: Child) -> Iterator[None]:
        self._attached.add(child)
        try:
            yield
        finally:
            self._attached.discard(child)
            child.close()

    def _start(self, process: Process) -> Child:
        login = self._make_login()
        environment = {**login.environment, **_wishes(process), **_connection(process)}
        name = login.shell.rpartition("/")[2]
        if process.command is None:
            program = Program(login.shell, f"-{name}", (), environment, login.home)
        else:
            arguments = ("-c", process.command)
            program = Program(login.shell, name, arguments, environment, login.home)
        if process.term_type is None:
            return self._children.start(program)
        return self._children.start_at_terminal(program, TerminalSize(*process.term_size))


async def _carry(process: Process, child: Child) -> None:
    """Until the program has ended and its last words are out, or the client has gone."""
    feeding = asyncio.ensure_future(_feed(process, child))
    pumping = asyncio.ensure_future(_pump_all(process, child))
    gone = asyncio.ensure_future(process.wait_closed())
    try:
        await _either(gone, child.ended, None)
        if child.ended.done():
            # With pipes, the words of everything that has them open are waited for.
            await _either(gone, pumping, _LINGER_SECONDS if child.has_terminal else None)
            _report_end(process, child.ended.result())
    finally:
        for task in (feeding, pumping, gone):
            task.cancel()
        await asyncio.gather(feeding, pumping, gone, return_exceptions=True)


async def _either(one: Awaited, other: Awaited, seconds: float | None) -> None:
    await asyncio.wait({one, other}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


async def _pump_all(process: Process, child: Child) -> None:
    pumps = [_pump(child.output, process.stdout)]
    if child.error is not None:
        pumps.append(_pump(child.error, process.stderr))
    await asyncio.gather(*pumps)


async def _feed(process: Process, child: Child) -> None:
    """What the client types, sends and does to its window."""
    while True:
        try:
            data = await process.stdin.read(CHUNK)
        except asyncssh.TerminalSizeChanged as size:
            child.resize(TerminalSize(size.width, size.height, size.pixwidth, size.pixheight))
        except asyncssh.SignalReceived as received:
            child.signal(received.signal)
        except asyncssh.BreakReceived:
            child.signal("INT")
        else:
            if not data:
                break
            await child.input.write(data)
    await child.end_input()


async def _pump(source: Descriptor, target: Writer) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionError, asyncssh.Error):
        while data := await source.read():
            target.write(data)
            await target.drain()


def _report_end(process: Process, code: int) -> None:
    if code >= 0:
        process.exit(code)
    else:
        process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))


async def _refuse(process: Process, reason: str, code: int) -> None:
    _LOG.warning("ssh_session_refused", extra={"reason": reason})
    process.stderr.write(f"podferry: {reason}\n".encode())
    process.exit(code)


def _wishes(process: Process) -> dict[str, str]:
    wishes = {n: v for n, v in process.env.items() if n.startswith(_WELCOME)}
    if process.term_type is not None:
        wishes["TERM"] = process.term_type
    return wishes


def _connection(process: Process) -> dict[str, str]:
    peer = process.get_extra_info("peername") or ("", 0)
    own = process.get_extra_info("sockname") or ("", 0)
    return {
        "SSH_CLIENT": f"{peer[0]} {peer[1]} {own[1]}",
        "SSH_CONNECTION": f"{peer[0]} {peer[1]} {own[0]} {own[1]}",
    }
