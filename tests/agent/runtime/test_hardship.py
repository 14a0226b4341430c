"""Unwritable state, an untrusted certificate, odd contents of /proc: the agent goes on or says why."""

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from podferry_agent import system
from podferry_agent.heartbeat import Wakeup
from podferry_agent.redaction import redact
from podferry_agent.retry import Backoff
from podferry_agent.ssh_keys import write_authorized_keys
from podferry_agent.state import StateStore
from podferry_agent.workload_process import BoundedLog
from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess

CERTIFICATE_REQUEST = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 "
    "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A CA nobody knows, with the key beside it."""
    try:
        subprocess.run(CERTIFICATE_REQUEST.split(), cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("this machine has no openssl program")
    return tmp_path / "cert.pem"


@pytest.fixture
def tls_plane(certificate: Path) -> Iterator[FakeControlPlane]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    control_plane = FakeControlPlane(tls=context)
    yield control_plane
    control_plane.close()


def test_operators_own_ca_is_trusted_when_it_is_given(
    tls_plane: FakeControlPlane, new_agent: AgentFactory, certificate: Path
) -> None:
    new_agent(PF_API=tls_plane.url, PF_CA=certificate.read_text()).start()
    tls_plane.wait_for(lambda: tls_plane.heartbeats)


def test_promise_11_token_is_not_sent_to_a_server_that_cannot_prove_itself(
    tls_plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    agent = new_agent(PF_API=tls_plane.url).start()
    tls_plane.wait_for(lambda: "CERTIFICATE_VERIFY_FAILED" in agent.log())
    assert tls_plane.seen == []


def test_state_that_cannot_be_stored_does_not_stop_the_agent(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    commands = agent.state_dir / "commands"
    # A file in the directory's place: like a full disk it refuses every new file, root's too.
    commands.write_text("")
    command = plane.enqueue("exec", {"argv": ["echo", "still here"], "timeout_seconds": 5})
    assert plane.wait_end(command)["state"] == "succeeded"
    assert plane.output(command, "stdout") == b"still here\n"
    assert "state_not_stored" in agent.log()


def test_log_is_cut_even_if_its_old_part_cannot_be_kept(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "workload.log", limit_bytes=100)
    log.path.write_bytes(b"x" * 500)
    (tmp_path / "workload.previous.log").mkdir()
    log.trim()
    assert log.path.stat().st_size == 0


def test_log_keeps_its_newest_part_beside_it(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "workload.log", limit_bytes=100)
    log.path.write_bytes(b"old" * 100 + b"n" * 50)
    log.trim()
    assert (tmp_path / "workload.previous.log").read_bytes() == b"n" * 50


def test_damaged_state_is_named_with_its_path(plane: FakeControlPlane, agent: AgentProcess) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    agent.kill_box()
    (agent.state_dir / "identity.json").write_text("{")
    assert agent.start().wait() == 64
    assert "identity.json is damaged" in agent.log()


def test_damaged_records_of_commands_and_workload_do_not_cut_the_machine_off(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("exec", {"argv": ["true"], "timeout_seconds": 5})
    plane.do("run", {"startup_script": "sleep 300", "timeout_seconds": 10})
    agent.kill_box()
    for path in [*agent.state_dir.glob("commands/*.json"), agent.state_dir / "workload.json"]:
        path.write_bytes(b"")
    agent.start()
    plane.do("exec", {"argv": ["true"], "timeout_seconds": 5})
    assert plane.heartbeats[-1]["workload"]["detail"] == "what was stored about it is damaged"
    assert "stored_command_damaged" in agent.log()


def test_figure_that_cannot_be_read_is_unknown() -> None:
    def odd() -> int:
        return int("[not a number]")

    assert system.known(odd) is None
    assert system.known(lambda: 5) == 5


PRIVATE_KEY = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n"
    "-----END OPENSSH PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("token pfm_mach_01abc_s3cretS3cretS3cret_x-y!", "token <token>!"),
        ("boot pfb_mach_01abc_0123456789abcdef", "boot <token>"),
        ("key pf_key1_0123456789abcdef", "key <token>"),
        ("GET https://b.s3/x/y?X-Amz-Signature=1 failed", "GET https://b.s3/x/y?<query> failed"),
        ("url: /x?X-Amz-Signature=abc&X-Amz-Date=1", "url: /x?X-Amz-<query>&X-Amz-<query>"),
        (f"made {PRIVATE_KEY}, used", "made <key>, used"),
        (PRIVATE_KEY[:60], "<key>"),
        ("a plain pf_word and https://host/path", "a plain pf_word and https://host/path"),
    ],
)
def test_secrets_are_taken_out_of_text(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_delays_grow_to_their_limit_and_keep_a_random_part() -> None:
    backoff = Backoff(first=1, longest=30)
    delays = [backoff.next_delay() for _ in range(20)]
    assert 0.5 <= delays[0] <= 1
    assert all(15 <= delay <= 30 for delay in delays[5:])
    assert len(set(delays[5:])) > 1
    backoff.reset()
    assert backoff.next_delay() <= 1


def test_delay_is_never_shorter_than_the_server_asked_for() -> None:
    assert Backoff(first=1, longest=30).next_delay(at_least=17) == 17


def test_wakeup_before_the_wait_ends_it_at_once() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    wakeup.wait(30)


def test_stored_document_is_replaced_whole(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    store.save("a", {"n": 1})
    store.save("a", {"n": 2})
    assert store.load("a") == {"n": 2}
    assert [path.name for path in store.directory.iterdir()] == ["a.json"]


def test_removed_keys_leave_the_providers_lines(tmp_path: Path) -> None:
    write_authorized_keys(tmp_path, ["ssh-rsa ONE"])
    path = tmp_path / "root/.ssh/authorized_keys"
    path.write_text(f"ssh-rsa BEFORE\n{path.read_text()}ssh-rsa AFTER\n")
    write_authorized_keys(tmp_path, [])
    assert path.read_text() == "ssh-rsa BEFORE\nssh-rsa AFTER\n"


def test_no_keys_make_no_file(tmp_path: Path) -> None:
    write_authorized_keys(tmp_path, [])
    assert not (tmp_path / "root").exists()
