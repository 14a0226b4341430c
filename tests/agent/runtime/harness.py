"""Runs the real agent as a process against the fake control plane."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podferry_agent.processes import find_process, has_mark, list_processes
from tests.agent.runtime.fake_api import BOOT_TOKEN, MACHINE_ID, FakeControlPlane

AGENT_PATH = Path(__file__).parents[3] / "agent"


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true value of `condition`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not true within {seconds} s"
        time.sleep(0.02)
    return value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def make_root(root: Path) -> Path:
    """A directory box: just enough of a root to run in."""
    for name in ("workspace", "etc", "root", "usr/bin", "dev"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/os-release").write_text('ID=testos\nVERSION_ID="1.0"\n')
    return root


@dataclass
class AgentProcess:
    """One box with its agent; `start` again after `kill_box` is a restart of the box."""

    plane: FakeControlPlane
    root: Path
    log_path: Path
    environment: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = (sys.executable, "-m", "podferry_agent")
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> "AgentProcess":
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.variables(),
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def variables(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(AGENT_PATH),
            "PF_API": self.plane.url,
            "PF_TOKEN": BOOT_TOKEN,
            "PF_MACHINE": MACHINE_ID,
            "PF_BUNDLE_URL": "http://127.0.0.1:1/bundle?X-Amz-Signature=bundle-secret",
            "PF_ROOT": str(self.root),
            "PF_RETRY_SECONDS": "0.05",
            "PF_RETRY_MAX_SECONDS": "0.2",
            **self.environment,
        }

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def state_dir(self) -> Path:
        return self.root / ".podferry/state"

    def agent_pid(self) -> int:
        """The supervisor's child that talks to the control plane."""

        def find() -> int | None:
            mine = [p for p in list_processes() if p.parent == self.pid and p.session == self.pid]
            return mine[0].pid if mine else None

        pid: int = until(find)
        return pid

    def kill_agent(self) -> None:
        os.kill(self.agent_pid(), signal.SIGKILL)

    def kill_box(self) -> None:
        """As a provider does it: everything at once, without a word."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        # The agent proper goes with its supervisor; the user's processes are ended here.
        until(self._kill_rest)

    def _kill_rest(self) -> bool:
        rest = self.own_processes()
        for pid in rest:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not rest

    def own_processes(self) -> list[int]:
        mark = f"PF_ROOT={self.root}".encode()
        return [p.pid for p in list_processes() if has_mark(p.pid, mark)]

    def wait(self, seconds: float = 60.0) -> int:
        assert self.process is not None
        return self.process.wait(seconds)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def is_stopped(self, pid: int) -> bool:
        process = find_process(pid)
        return process is not None and process.is_stopped
