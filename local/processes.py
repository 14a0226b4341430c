"""Start a server process that announces itself with one line of JSON, and end it by its id."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parent.parent
START_SECONDS = 120.0
END_SECONDS = 30.0


class ProcessError(Exception):
    """A server did not start; the message says which, and shows the end of its log."""


@dataclass(slots=True)
class Server:
    """A child process of ours that serves on this machine."""

    name: str
    process: subprocess.Popen[bytes]
    hello: dict[str, Any]
    """What it announced: its addresses."""

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """End it cleanly; kill it if it does not end in time."""
        if self.is_alive:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self._close()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_server(name: str, module: Sequence[str], log: Path) -> Server:
    """Run `python -m <module …>` from the repository and wait for its line.

    Raises:
        ProcessError: it ended or stayed silent.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as errors:
        begin = errors.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            # Ctrl-C in the terminal is for the parent, which ends its children in order.
            start_new_session=True,
        )
    line = _first_line(process)
    if not line:
        Server(name=name, process=process, hello={}).kill()
        raise ProcessError(f"{name} did not start; the end of {log}:\n{_tail(log, begin)}")
    return Server(name=name, process=process, hello=json.loads(line))


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    output: IO[bytes] | None = process.stdout
    if output is None:
        return b""
    deadline = time.monotonic() + START_SECONDS
    line = b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([output], [], [], left)[0]:
            return b""
        piece = os.read(output.fileno(), 65536)
        if not piece:
            return b""
        line += piece
    return line.splitlines()[0]


def _tail(log: Path, begin: int, lines: int = 15) -> str:
    """The last lines that were written behind byte `begin`: earlier starts wrote before it."""
    said = log.read_bytes()[begin:].decode(errors="replace")
    return "\n".join(said.splitlines()[-lines:])
