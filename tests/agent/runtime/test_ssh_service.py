"""The agent's hold on its SSH server's process."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from podferry_agent.api import ApiClient, ApiSettings, build_pool
from podferry_agent.box import Box
from podferry_agent.errors import CommandError
from podferry_agent.ssh.service import Listen, SshService
from podferry_agent.state import StateStore
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AGENT_PATH, make_root, until
from tests.agent.runtime.ssh_client import SshClient, make_key, pin, public_line

TOKEN = "pfm_mach_test_0123456789abcdef"


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def service(
    plane: FakeControlPlane,
    tmp_path: Path,
    free_port: int,
    stopping: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SshService]:
    monkeypatch.setenv("PYTHONPATH", str(AGENT_PATH))
    plane.token_sha256 = hashlib.sha256(TOKEN.encode()).hexdigest()
    api = ApiClient(ApiSettings(plane.url, 0.05, 0.2), build_pool(None, 2), stopping, stopping.set)
    api.token = TOKEN
    box = Box(make_root(tmp_path / "box"), "mach_test", {"PATH": "/usr/bin:/bin"})
    store = StateStore(tmp_path / "state")
    service = SshService(api, box, store, stopping, Listen("127.0.0.1", free_port))
    yield service
    stopping.set()
    service.stop()


@pytest.fixture
def user(service: SshService, plane: FakeControlPlane, tmp_path: Path) -> SshClient:
    key = make_key(tmp_path)
    plane.authorized_keys = [public_line(key)]
    service.start(22, {})
    service.probe()
    assert plane.host_key is not None
    assert service.listen is not None
    pin(tmp_path / "known_hosts", service.listen.port, plane.host_key)
    return SshClient(service.listen.port, key, tmp_path / "known_hosts")


def test_sessions_are_counted_while_they_last(service: SshService, user: SshClient) -> None:
    assert service.counts.logins == 0, "the probe is nobody's login"
    first, second = user.open("cat"), user.open("cat")
    until(lambda: service.sessions == 2)
    first.communicate(timeout=30)
    until(lambda: service.sessions == 1)
    second.communicate(timeout=30)
    until(lambda: service.sessions == 0)
    assert (service.counts.logins, service.counts.refused) == (2, 0)


def test_refused_logins_are_counted(service: SshService, user: SshClient, tmp_path: Path) -> None:
    stranger = SshClient(user.port, make_key(tmp_path, "stranger"), user.known_hosts)
    assert not stranger.can_log_in()
    until(lambda: service.counts.refused == 1)
    assert service.counts.logins == 0


def test_new_environment_counts_for_the_next_login(service: SshService, user: SshClient) -> None:
    session = user.open("cat")
    until(lambda: service.sessions == 1)
    service.start(22, {"COLOUR": "red"})
    until(lambda: user.ok("echo $COLOUR") == "red\n")
    assert service.sessions >= 1, "who is in stays in"
    session.communicate(timeout=30)


def test_server_goes_on_after_a_restart_of_the_agent(
    service: SshService, user: SshClient, stopping: threading.Event
) -> None:
    service.start(22, {"COLOUR": "blue"})
    stopping.set()
    service.stop()
    stopping.clear()
    again = SshService(service.api, service.box, service.store, stopping, service.listen)
    again.recover()
    again.probe()
    try:
        assert user.ok("echo $COLOUR") == "blue\n"
    finally:
        stopping.set()
        again.stop()


def test_damaged_record_of_the_server_does_not_stop_the_agent(service: SshService) -> None:
    (service.store.directory / "ssh.json").write_text("{not json")
    service.recover()
    with pytest.raises(CommandError, match="it has not been started"):
        service.probe()


def test_server_has_none_of_the_agents_secrets(
    service: SshService, user: SshClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = service.store.load("ssh-process")
    assert process is not None
    environment = Path(f"/proc/{process['pid']}/environ").read_bytes()
    command = Path(f"/proc/{process['pid']}/cmdline").read_bytes()
    names = {line.partition(b"=")[0] for line in environment.split(b"\0") if line}
    assert names <= {b"PF_ROOT", b"PF_MACHINE", b"HOME", b"LOGNAME", b"PYTHONPATH", b"LC_CTYPE"}
    assert TOKEN.encode() not in environment + command
