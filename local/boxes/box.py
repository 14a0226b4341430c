"""A box as its owner holds it: start, end, restart on the same disk, throw away."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.boxes.spec import BoxSpec

_PACKAGE_PARENT = Path(__file__).resolve().parents[2]
_KILL_SECONDS = 10.0


class BoxStartError(Exception):
    """The box did not come up; the message says why."""


class BoxError(Exception):
    """Something that needs a running, or an ended, box was asked of one that is not."""


@dataclass(frozen=True, slots=True)
class BoxExit:
    """How a box ended: an exit code, or the signal that killed its first process."""

    code: int | None
    signal: int | None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command inside a box answered."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Box:
    """A root file system with its own processes. Methods may be called from any thread."""

    def __init__(self, spec: BoxSpec) -> None:
        self.spec = spec
        self._lock = threading.RLock()
        self._keeper: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._exit: BoxExit | None = None
        self._ended = threading.Event()

    @property
    def log_path(self) -> Path:
        return self.spec.log_path

    @property
    def pid(self) -> int:
        """The host's number of the box's first process."""
        if self._pid is None:
            raise BoxError("the box has not been started")
        return self._pid

    @property
    def is_alive(self) -> bool:
        return self._keeper is not None and not self._ended.is_set()

    def start(self) -> None:
        """Start the box, on the files of its last run if there are any.

        Raises:
            BoxStartError: the kernel refused, or the command cannot be run.
            BoxError: it runs already.
        """
        with self._lock:
            if self.is_alive:
                raise BoxError(f"{self.spec.directory}: this box runs already")
            self.spec.directory.mkdir(parents=True, exist_ok=True)
            keeper = self._start_keeper()
            event = _read_event(keeper)
            if event.get("event") != "started":
                _collect(keeper)
                raise BoxStartError(str(event.get("reason", self._keeper_log())))
            self._keeper, self._pid = keeper, int(event["pid"])
            self._exit, self._ended = None, threading.Event()
            watcher = threading.Thread(target=self._await_end, args=(keeper, self._ended))
            watcher.daemon = True
            watcher.start()

    def terminate(self) -> None:
        """Send SIGTERM to the first process. The kernel drops it if there is no handler."""
        self._tell_keeper(b"t")

    def kill(self) -> None:
        """End every process of the box at once. Killing an ended box does nothing."""
        keeper = self._keeper
        if keeper is None or self._ended.is_set():
            return
        self._tell_keeper(b"k")
        if not self._ended.wait(_KILL_SECONDS):
            keeper.kill()
            self._ended.wait(_KILL_SECONDS)

    def wait(self, timeout: float | None = None) -> BoxExit | None:
        """Wait for the end; None if the box still runs after `timeout` seconds."""
        return self._exit if self._ended.wait(timeout) else None

    def destroy(self) -> None:
        """Kill the box and delete its disk. Destroying twice does nothing.

        Raises:
            BoxError: a file could not be deleted.
        """
        with self._lock:
            self.kill()
            if not self.spec.directory.exists():
                return
            try:
                shutil.rmtree(self.spec.directory)
            except PermissionError:
                self._remove_from_inside()

    def run(self, argv: Sequence[str], timeout: float = 10.0) -> CommandResult:
        """Run a command inside the running box.

        Raises:
            BoxError: the box does not run, or the command took longer than `timeout` seconds.
        """
        if not self.is_alive:
            raise BoxError(f"{self.spec.directory}: this box does not run")
        spec_path = str(self.spec.directory / "spec.json")
        command = _module("enter", str(self.pid), spec_path, *argv)
        # Files, not pipes: what the command leaves running in the box may keep them open.
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=_environment(),
            )
            try:
                exit_code = process.wait(timeout)
            except subprocess.TimeoutExpired as error:
                process.terminate()
                process.wait()
                raise BoxError(f"{argv[0]}: not done after {timeout:g} s") from error
            stdout.seek(0)
            stderr.seek(0)
            return CommandResult(exit_code, stdout.read(), stderr.read())

    def _remove_from_inside(self) -> None:
        command = _module("remove", str(self.spec.isolation), str(self.spec.directory))
        done = subprocess.run(
            command, capture_output=True, text=True, env=_environment(), check=False
        )
        if done.returncode != 0:
            raise BoxError(done.stderr.strip())

    def _start_keeper(self) -> subprocess.Popen[bytes]:
        spec_path = self.spec.save()
        with (self.spec.directory / "keeper.log").open("ab") as log:
            # A session of its own: Ctrl-C in a terminal reaches the owner only.
            return subprocess.Popen(
                _module("keeper", str(spec_path)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                start_new_session=True,
                bufsize=0,
            )

    def _tell_keeper(self, message: bytes) -> None:
        keeper = self._keeper
        if keeper is None or keeper.stdin is None:
            raise BoxError("the box has not been started")
        # A box that has just ended no longer listens, which is as good as told.
        with contextlib.suppress(BrokenPipeError, ValueError):
            keeper.stdin.write(message)

    def _await_end(self, keeper: subprocess.Popen[bytes], ended: threading.Event) -> None:
        event = _read_event(keeper)
        _collect(keeper)
        self._exit = _exit_from(event)
        ended.set()

    def _keeper_log(self) -> str:
        return (self.spec.directory / "keeper.log").read_text(errors="replace")[-2000:]


def _exit_from(event: dict[str, Any]) -> BoxExit:
    status = event.get("status")
    if status is None:
        # The keeper itself was killed; the kernel then killed the box.
        return BoxExit(code=None, signal=9)
    code = os.waitstatus_to_exitcode(status)
    return BoxExit(code=code, signal=None) if code >= 0 else BoxExit(code=None, signal=-code)


def _collect(keeper: subprocess.Popen[bytes]) -> None:
    keeper.wait()
    for stream in (keeper.stdin, keeper.stdout):
        if stream is not None:
            stream.close()


def _read_event(keeper: subprocess.Popen[bytes]) -> dict[str, Any]:
    line = keeper.stdout.readline() if keeper.stdout else b""
    event: dict[str, Any] = json.loads(line) if line else {}
    return event


def _module(name: str, *arguments: str) -> list[str]:
    # -S: no site packages are needed, and starting takes half the time without them.
    return [sys.executable, "-S", "-P", "-m", f"local.boxes.{name}", *arguments]


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": str(_PACKAGE_PARENT), "PATH": os.environ.get("PATH", os.defpath)}
