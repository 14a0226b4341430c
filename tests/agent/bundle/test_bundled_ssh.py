"""The SSH server out of the bundle, in roots that have nothing that it could use."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundle.build import Bundle
from tests.agent.bundle.conftest import needs_chroot, unpack
from tests.agent.bundle.test_bundle import a_boxed_agent
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, free_port
from tests.agent.runtime.ssh_client import SshClient, make_key, pin, public_line
from tests.agent.runtime.test_capture_restore import capture_args, restore_args
from tests.agent.runtime.test_run import run_args

pytestmark = needs_chroot

# Whoever loads one of these dies.
LIBRARIES = ("lib/x86_64-linux-gnu/libc.so.6", "lib64/ld-linux-x86-64.so.2", "lib/libssl.so.3")


def furnish(root: Path, word: str) -> Path:
    """A root with one static program, no library that works, no Python, no sshd, no users."""
    for name in ("bin", "etc", "root", "workspace"):
        (root / name).mkdir(exist_ok=True)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    (root / "etc/word").write_text(word)
    for library in LIBRARIES:
        (root / library).parent.mkdir(parents=True, exist_ok=True)
        (root / library).write_bytes(b"\x7fELF of " + word.encode())
    return root


@pytest.fixture
def user(plane: FakeControlPlane, tmp_path: Path) -> SshClient:
    key = make_key(tmp_path)
    plane.authorized_keys = [public_line(key)]
    return SshClient(free_port(), key, tmp_path / "known_hosts")


@pytest.fixture
def agents() -> Iterator[list[AgentProcess]]:
    started: list[AgentProcess] = []
    yield started
    for agent in started:
        agent.kill_box()


def start(plane: FakeControlPlane, root: Path, logs: Path, port: int) -> AgentProcess:
    agent = a_boxed_agent(plane, root, logs)
    agent.environment = {**agent.environment, "PF_SSH_LISTEN": f"127.0.0.1:{port}"}
    return agent.start()


def move(
    plane: FakeControlPlane, agents: list[AgentProcess], root: Path, logs: Path, port: int
) -> None:
    """To the next machine; the fake control plane knows one at a time."""
    agents.pop().kill_box()
    plane.token_sha256 = ""
    agents.append(start(plane, root, logs, port))


def open_up(plane: FakeControlPlane, user: SshClient) -> None:
    assert plane.do("run", run_args(None, ssh_port=22))["ssh_ok"] is True
    assert plane.host_key is not None
    pin(user.known_hosts, user.port, plane.host_key)


def test_login_works_in_an_image_without_sshd_python_and_c_library(
    plane: FakeControlPlane,
    own_root: Path,
    tmp_path: Path,
    user: SshClient,
    agents: list[AgentProcess],
) -> None:
    agents.append(start(plane, furnish(own_root, "first"), tmp_path, user.port))
    open_up(plane, user)
    assert user.ok("busybox cat /etc/word; echo $SHELL $USER") == "first/bin/sh root\n"
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    assert user.scp(str(tmp_path / "file"), "root@127.0.0.1:/workspace/file").returncode == 0
    assert (own_root / "workspace/file").stat().st_size == 3_000_000
    refused = user.run("true", "-tt")
    assert refused.returncode == 126, "this root has no /dev to make a terminal with"
    assert b"cannot start" in refused.stderr + refused.stdout


def test_restore_that_replaces_the_c_library_leaves_the_server_and_new_logins_see_it(
    plane: FakeControlPlane,
    own_root: Path,
    bundle: Bundle,
    tmp_path: Path,
    user: SshClient,
    agents: list[AgentProcess],
) -> None:
    agents.append(start(plane, furnish(own_root, "second"), tmp_path, user.port))
    plane.do("capture", capture_args("environment"))
    root = furnish(unpack(bundle, tmp_path / "next"), "first")
    move(plane, agents, root, tmp_path, user.port)
    open_up(plane, user)
    session = user.open("echo begun; read line; busybox cat /etc/word")
    assert session.stdout is not None
    assert session.stdout.readline() == b"begun\n"
    plane.do("restore", restore_args("environment"))
    assert (root / LIBRARIES[0]).read_bytes().endswith(b"second")
    assert user.ok("busybox cat /etc/word") == "second"
    output, _ = session.communicate(b"go on\n", timeout=30)
    assert output == b"second", "a session of before sees the root as it is"


def test_host_key_is_in_nothing_that_a_snapshot_brings_elsewhere(
    plane: FakeControlPlane,
    own_root: Path,
    bundle: Bundle,
    tmp_path: Path,
    user: SshClient,
    agents: list[AgentProcess],
) -> None:
    agents.append(start(plane, furnish(own_root, "first"), tmp_path, user.port))
    open_up(plane, user)
    plane.do("capture", capture_args("environment"))
    root = unpack(bundle, tmp_path / "next")
    move(plane, agents, root, tmp_path, user.port)
    plane.do("restore", restore_args("environment"))
    assert plane.host_key is not None
    secret = plane.host_key.splitlines()[3].encode()
    brought = [path for path in root.rglob("*") if path.is_file() and ".podferry" not in path.parts]
    assert any(path.name == "word" for path in brought)
    assert [path for path in brought if secret in path.read_bytes()] == []
    assert [name for name, body in plane.objects.items() if secret in body] == []
