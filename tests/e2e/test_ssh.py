"""A user logs in to a real box with the system's ssh, and again after the pod has moved."""

from pathlib import Path

from deployment import User

from tests.agent.runtime.harness import until
from tests.agent.runtime.ssh_client import SshClient, make_key, public_line


def client_of(pod: dict[str, object], key: Path, known_hosts: Path) -> SshClient:
    """What a user makes of the pod's view."""
    ssh = pod["ssh"]
    assert isinstance(ssh, dict)
    assert (ssh["host"], ssh["user"]) == ("127.0.0.1", "root")
    known_hosts.write_text(f"{ssh['known_hosts']}\n")
    return SshClient(ssh["port"], key, known_hosts)


def test_case_r7_ssh_finds_the_same_host_key_after_a_move_to_another_provider(
    user: User, tmp_path: Path
) -> None:
    key = make_key(tmp_path)
    user.api.post("/v1/ssh-keys", {"name": "laptop", "public_key": public_line(key)})
    pod = user.running_pod("fluence", environment={"GREETING": "hello"})
    here = client_of(pod, key, tmp_path / "known_hosts")
    assert here.ok("echo $GREETING $HOME $(whoami); hostname >&2") == "hello /root root\n"
    assert here.ok("stty size < /dev/tty", "-tt").split() == ["0", "0"]
    (tmp_path / "file").write_bytes(b"\0\xff" * 500_000)
    assert here.scp(str(tmp_path / "file"), "root@127.0.0.1:/workspace/file").returncode == 0
    user.do(pod, "move", "vastai")
    moved = user.pod(pod)
    assert moved["machine"]["provider"] == "vastai"
    assert moved["machine"]["id"] != pod["machine"]["id"]
    for part in ("host_key", "host_key_fingerprint"):
        assert moved["ssh"][part] == pod["ssh"][part]
    # The line of the first machine is enough: it names the pod.
    there = SshClient(moved["ssh"]["port"], key, tmp_path / "known_hosts")
    done = there.run("cat /workspace/file", "-o", f"HostKeyAlias={pod['id']}")
    assert done.stdout == (tmp_path / "file").read_bytes(), done.stderr


def test_promise_06_a_running_pod_lets_its_user_in(user: User, tmp_path: Path) -> None:
    key, stranger = make_key(tmp_path), make_key(tmp_path, "stranger")
    user.api.post("/v1/ssh-keys", {"name": "laptop", "public_key": public_line(key)})
    pod = user.running_pod("vastai")
    client = client_of(pod, key, tmp_path / "known_hosts")
    assert client.can_log_in()
    assert not SshClient(client.port, stranger, client.known_hosts).can_log_in()
    user.api.post("/v1/ssh-keys", {"name": "two", "public_key": public_line(stranger)})
    until(SshClient(client.port, stranger, client.known_hosts).can_log_in)


def test_a_machine_that_was_rented_bare_lets_its_pods_user_in(user: User, tmp_path: Path) -> None:
    key = make_key(tmp_path)
    user.api.post("/v1/ssh-keys", {"name": "laptop", "public_key": public_line(key)})
    pod = user.running_pod("vastai")
    user.run(pod, "echo kept > /workspace/file")
    user.do(pod, "move", requirements={"providers": ["fluence"], "kinds": ["vm"]})
    moved = user.pod(pod)
    assert moved["machine"]["provider"] == "fluence"
    client = client_of(moved, key, tmp_path / "known_hosts")
    assert client.ok("cat /workspace/file") == "kept\n"
    events = user.api.get(f"/v1/pods/{pod['id']}/events")["data"]
    (reached,) = [event for event in events if event["type"] == "machine.reached"]
    assert reached["evidence"]["host_key"] != moved["ssh"]["host_key"]
