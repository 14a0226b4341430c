"""The directory that holds everything the embedded AWS keeps between two runs."""

import fcntl
import json
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from local.aws.errors import DataDirBusyError, LocalAWSError, PortTakenError

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class DataDir:
    """Paths inside the data directory."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def journal(self) -> Path:
        return self.root / "journal"

    @property
    def objects(self) -> Path:
        return self.root / "s3"

    @property
    def scratch(self) -> Path:
        return self.root / "tmp"

    @property
    def runtime_site(self) -> Path:
        return self.root / "runtime"

    @property
    def code(self) -> Path:
        return self.root / "code"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def ports_file(self) -> Path:
        return self.root / "ports.json"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    def prepare(self) -> None:
        """Makes the directories; what an earlier run derived from the state is dropped."""
        for derived in (self.scratch, self.runtime_site):
            shutil.rmtree(derived, ignore_errors=True)
        kept = (self.state, self.journal, self.objects, self.logs)
        for path in (*kept, self.scratch, self.runtime_site):
            path.mkdir(parents=True, exist_ok=True)


def lock(data: DataDir) -> IO[str]:
    """Takes the directory for this process; the lock ends with the process, however it ends.

    Raises:
        DataDirBusyError: another process holds it.
    """
    data.root.mkdir(parents=True, exist_ok=True)
    handle = data.lock_file.open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as busy:
        handle.seek(0)
        holder = handle.read().strip() or "unknown"
        handle.close()
        raise DataDirBusyError(
            f"{data.root} is in use by process {holder}: end that one first, or choose another "
            "directory with --data"
        ) from busy
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle


@dataclass(frozen=True, slots=True)
class Listeners:
    """The two sockets, bound before anything else starts so that their ports are sure."""

    api: socket.socket
    front: socket.socket

    @property
    def port(self) -> int:
        return int(self.api.getsockname()[1])

    @property
    def front_port(self) -> int:
        return int(self.front.getsockname()[1])


def bind(data: DataDir, port: int, front_port: int) -> Listeners:
    """Binds both ports. Port 0 means: the port of the last run, or any free one on the first.

    Stored URLs (queues, presigned objects, agents' settings) name the port, so it must not move
    between two runs unless the user asks for it.

    Raises:
        PortTakenError: names the port and the flag that moves it.
    """
    kept = _kept_ports(data)
    listeners = Listeners(
        api=_bind(port or kept.get("port", 0), "--port"),
        front=_bind(front_port or kept.get("front_port", 0), "--front-port"),
    )
    ports = {"port": listeners.port, "front_port": listeners.front_port}
    data.ports_file.write_text(json.dumps(ports))
    return listeners


def _kept_ports(data: DataDir) -> dict[str, int]:
    if not data.ports_file.exists():
        return {}
    try:
        ports = json.loads(data.ports_file.read_text())
        return {name: int(ports[name]) for name in ("port", "front_port")}
    except (ValueError, KeyError, TypeError) as bad:
        raise LocalAWSError(
            f"{data.ports_file} is not readable ({bad!r}): delete it, new ports are chosen then"
        ) from bad


_RUN_FLAGS = {"--port": "--aws-port", "--front-port": "--api-port"}


def _bind(port: int, flag: str) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as taken:
        listener.close()
        raise PortTakenError(
            f"port {port} on {HOST} cannot be used ({taken.strerror}): end the program that "
            f"listens there, or move this one with {flag} N (in `make run`: {_RUN_FLAGS[flag]})"
        ) from taken
    return listener
