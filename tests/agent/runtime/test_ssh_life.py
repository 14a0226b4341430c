"""The SSH server through what happens to its agent, its box and its account's keys.

Each test has a box of its own: a quiesce here would stop the one that other tests share.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.agent.runtime.conftest import running_box
from tests.agent.runtime.harness import free_port, until
from tests.agent.runtime.ssh_client import SshClient, make_key, pin, public_line
from tests.agent.runtime.ssh_pod import Pod, processes_of, ready_pod
from tests.agent.runtime.test_run import run_args


@pytest.fixture
def own_pod(tmp_path: Path) -> Iterator[Pod]:
    """For tests that change the server."""
    with ready_pod(tmp_path) as ready:
        yield ready


def test_changed_keys_count_with_the_next_login(own_pod: Pod, tmp_path: Path) -> None:
    plane, first = own_pod.plane, own_pod.client
    new = SshClient(first.port, make_key(tmp_path, "new"), first.known_hosts)
    assert first.can_log_in()
    assert not new.can_log_in()
    plane.authorized_keys = [public_line(new.key)]
    until(new.can_log_in)
    assert not first.can_log_in()


def test_control_plane_that_is_away_does_not_lock_the_user_out(own_pod: Pod) -> None:
    assert own_pod.client.can_log_in()
    fault = own_pod.plane.add_fault("POST", "/agent/v1/ssh-keys", "error", count=1000)
    asked = fault.left
    until(lambda: own_pod.client.can_log_in() and fault.left < asked)


def test_host_key_stays_when_the_agent_is_started_again_and_sessions_end(own_pod: Pod) -> None:
    session = own_pod.client.open("echo begun; exec sleep 602")
    assert session.stdout is not None
    assert session.stdout.readline() == b"begun\n"
    own_pod.agent.kill_agent()
    assert session.wait(30) != 0
    session.communicate()
    until(lambda: not processes_of("sleep 602"))
    # The server is pinned, so a login proves its key.
    until(own_pod.client.can_log_in)
    assert len(own_pod.plane.offered_host_keys) == 1


def test_strangers_who_only_connect_do_not_keep_users_out(own_pod: Pod) -> None:
    address = ("127.0.0.1", own_pod.client.port)
    with ExitStack() as stack:
        knocking = [
            stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(32)
        ]
        greetings = [connection.recv(100) for connection in knocking]
        assert greetings.count(b"") == 2, "more than 30 are turned away at once"
    until(own_pod.client.can_log_in)


def test_server_that_died_is_started_again(own_pod: Pod) -> None:
    (pid,) = _server_of(own_pod)
    os.kill(pid, 9)
    until(lambda: _server_of(own_pod) not in ([], [pid]))
    until(own_pod.client.can_log_in)


def _server_of(pod: Pod) -> list[int]:
    children = Path(f"/proc/{pod.agent.agent_pid()}/task")
    pids = " ".join(file.read_text() for file in children.glob("*/children")).split()
    return [int(pid) for pid in pids if Path(f"/proc/{pid}/comm").read_text() == "podferry-sshd\n"]


def test_key_that_another_machine_made_first_is_the_pods(tmp_path: Path) -> None:
    first = make_key(tmp_path, "first").read_text()
    port = free_port()
    with running_box(tmp_path, PF_SSH_LISTEN=f"127.0.0.1:{port}") as (plane, _agent):
        key = make_key(tmp_path)
        plane.authorized_keys, plane.host_key = [public_line(key)], first
        plane.do("run", run_args(None, ssh_port=22))
        pin(tmp_path / "known_hosts", port, first)
        assert SshClient(port, key, tmp_path / "known_hosts").can_log_in()
        assert plane.offered_host_keys == []


def test_host_key_is_neither_on_the_disk_of_the_machine_nor_in_a_log(own_pod: Pod) -> None:
    assert own_pod.plane.host_key is not None
    secret = own_pod.plane.host_key.splitlines()[3]
    assert secret not in own_pod.agent.log()
    files = [path for path in own_pod.agent.root.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_case_p17_pod_whose_ssh_server_cannot_listen_is_not_ready(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = {"PF_SSH_LISTEN": f"127.0.0.1:{taken.getsockname()[1]}"}
        with running_box(tmp_path, **listen) as (plane, _agent):
            command = plane.enqueue("run", run_args(None, ssh_port=22), timeout_seconds=120)
            error = plane.wait_end(command, 120)["error"]
    assert (error["code"], error["retryable"]) == ("ssh_probe_failed", True)
    assert "cannot listen on 127.0.0.1:" in error["detail"]


def test_nobody_gets_in_while_the_box_is_at_rest(own_pod: Pod) -> None:
    own_pod.plane.do("quiesce", {"grace_seconds": 1, "hook_timeout_seconds": 1})
    attempt = own_pod.client.open("touch /workspace/late; echo in")
    (server,) = _server_of(own_pod)
    assert own_pod.agent.is_stopped(server)
    assert attempt.poll() is None
    own_pod.plane.do("resume")
    output, _ = attempt.communicate(timeout=30)
    assert output == b"in\n"


def test_paused_server_of_a_dead_agent_makes_way_for_the_next(own_pod: Pod) -> None:
    own_pod.plane.do("quiesce", {"grace_seconds": 1, "hook_timeout_seconds": 1})
    (server,) = _server_of(own_pod)
    own_pod.agent.kill_agent()
    until(lambda: not Path(f"/proc/{server}").exists())
    until(own_pod.client.can_log_in)
