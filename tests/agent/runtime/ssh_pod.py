"""A running agent with its SSH server, for tests that log in to it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.agent.runtime.conftest import running_box
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, free_port
from tests.agent.runtime.ssh_client import SshClient, make_key, pin, public_line
from tests.agent.runtime.test_run import run_args


@dataclass
class Pod:
    """A running agent with its SSH server, and a user who may log in."""

    plane: FakeControlPlane
    agent: AgentProcess
    client: SshClient


@contextmanager
def ready_pod(folder: Path) -> Iterator[Pod]:
    port = free_port()
    key = make_key(folder)
    listen = {"PF_SSH_LISTEN": f"127.0.0.1:{port}"}
    with running_box(folder, **listen) as (plane, agent):
        plane.authorized_keys = [public_line(key)]
        result = plane.do("run", run_args(None, ssh_port=22, environment={"MODEL": "tiny"}))
        assert result["ssh_ok"] is True
        assert plane.host_key is not None
        pin(folder / "known_hosts", port, plane.host_key)
        yield Pod(plane, agent, SshClient(port, key, folder / "known_hosts"))


def processes_of(command: str) -> list[str]:
    done = subprocess.run(["pgrep", "-fx", command], capture_output=True, check=False)
    return done.stdout.decode().split()
