"""Starts programs of the box, with pipes or at a terminal, and learns of their ends.

The process has no second thread that could hold a lock at a fork, and it collects its children
itself on SIGCHLD, so nothing here depends on what the kernel of a rented machine may lack (pidfd).
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from podferry_agent.processes import kill_group, send_signal
from podferry_agent.ssh.descriptors import Descriptor

_END_OF_INPUT = b"\x04"


@dataclass(frozen=True, slots=True)
class Program:
    """What to start. A `name` that begins with "-" makes a shell a login shell."""

    path: str
    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str


@dataclass(frozen=True, slots=True)
class TerminalSize:
    columns: int
    rows: int
    pixel_width: int = 0
    pixel_height: int = 0


@dataclass(frozen=True, slots=True)
class Child:
    """A started program. `error` is None at a terminal, where there is one output only."""

    process: subprocess.Popen[bytes]
    ended: "asyncio.Future[int]"
    input: Descriptor
    output: Descriptor
    error: Descriptor | None

    @property
    def has_terminal(self) -> bool:
        return self.error is None

    def resize(self, size: TerminalSize) -> None:
        if self.has_terminal:
            _set_size(self.input.number, size)

    def signal(self, name: str) -> None:
        """`name` is a signal's without SIG; to all that is in the foreground."""
        number = getattr(signal, f"SIG{name}", None)
        if isinstance(number, signal.Signals):
            with contextlib.suppress(OSError):
                os.killpg(self._group(), number)

    async def end_input(self) -> None:
        if self.has_terminal:
            await self.input.write(_END_OF_INPUT)
        else:
            self.input.close()

    def close(self) -> None:
        """The user has gone: a terminal hangs up, pipes break."""
        for descriptor in {self.input, self.output, self.error}:
            if descriptor is not None:
                descriptor.close()

    def kill(self) -> None:
        """It and its session: the server ends."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGHUP)
        send_signal(self.process.pid, signal.SIGCONT)
        kill_group(self.process.pid)

    def _group(self) -> int:
        if self.has_terminal:
            with contextlib.suppress(OSError):
                return os.tcgetpgrp(self.input.number)
        return self.process.pid


class Children:
    """Everything that was started and has not ended."""

    def __init__(self) -> None:
        self._living: dict[subprocess.Popen[bytes], asyncio.Future[int]] = {}

    def watch(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._collect)

    def start(self, program: Program) -> Child:
        """With three pipes.

        Raises:
            OSError: It cannot be started.
        """
        pipe = subprocess.PIPE
        process = _start(program, pipe, pipe, pipe)
        numbers = []
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            # Our own copy: the Popen object may close its file whenever it is forgotten.
            numbers.append(os.dup(stream.fileno()))
            stream.close()
        stdin, stdout, stderr = map(Descriptor, numbers)
        return Child(process, self._expect(process), stdin, stdout, stderr)

    def start_at_terminal(self, program: Program, size: TerminalSize) -> Child:
        """Raises: OSError if it cannot be started, or the box has no terminals."""
        master, slave = os.openpty()
        try:
            _set_size(master, size)
            environment = {**program.environment, "SSH_TTY": os.ttyname(slave)}
            process = _start(replace(program, environment=environment), slave, slave, slave)
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        both = Descriptor(master)
        return Child(process, self._expect(process), both, both, None)

    def _expect(self, process: subprocess.Popen[bytes]) -> "asyncio.Future[int]":
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._living[process] = ended
        # It may have ended before it was in the list.
        self._collect()
        return ended

    def _collect(self) -> None:
        for process in [p for p in self._living if p.poll() is not None]:
            self._living.pop(process).set_result(process.returncode)


def _start(program: Program, stdin: int, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    is_at_terminal = stdin >= 0
    return subprocess.Popen(
        [program.name, *program.arguments],
        executable=program.path,
        cwd=program.directory if Path(program.directory).is_dir() else "/",
        env=program.environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=_take_terminal if is_at_terminal else None,  # noqa: PLW1509 - one thread
    )


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(descriptor: int, size: TerminalSize) -> None:
    packed = struct.pack("HHHH", size.rows, size.columns, size.pixel_width, size.pixel_height)
    with contextlib.suppress(OSError):
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, packed)
