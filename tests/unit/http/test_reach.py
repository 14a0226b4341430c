"""How a pod is reached: the host key between agent and control plane, and what users see."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from podferry.domain.host_key import SSH_PORT, HostKey
from podferry.domain.machine import Machine, PublicPort
from podferry.domain.pod import Pod, PodState
from podferry.ports.store import Update
from tests.unit.http.deployment import Deployment, Reply, User
from tests.unit.http.running import a_running_pod, machine_of, machine_token

PUBLIC_KEY = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@home"
)


def a_host_key(folder: Path, name: str = "key") -> str:
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path.read_text()


class Machinery:
    """A running pod and what its machine says."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.pod_id = a_running_pod(user)
        self.machine = machine_of(user.deployment, self.pod_id)

    def say(self, path: str, body: Any) -> Reply:
        token = machine_token(self.machine.id)
        return self.user.deployment.call("POST", f"/agent/v1/{path}", body, token=token)

    def offer(self, key: str | None) -> Reply:
        return self.say("host-key", {"private_key": key})

    def ssh(self) -> Any:
        return self.user.get(f"/v1/pods/{self.pod_id}").json["ssh"]


@pytest.fixture
def place(user: User) -> Machinery:
    return Machinery(user)


PORTS = (
    PublicPort(internal=8000, host="203.0.113.7", external=41000),
    PublicPort(internal=SSH_PORT, host="203.0.113.7", external=40022),
)


def show_ports(deployment: Deployment, machine: Machine, *ports: PublicPort) -> None:
    fresh = deployment.ports.store.get(Machine, machine.id)
    deployment.ports.store.commit(Update(replace(fresh, ports=ports)))


def test_the_first_host_key_that_is_offered_is_the_pods(place: Machinery, tmp_path: Path) -> None:
    assert place.offer(None).json == {"private_key": None}
    first, second = a_host_key(tmp_path, "first"), a_host_key(tmp_path, "second")
    assert place.offer(first).json == {"private_key": first}
    assert place.offer(second).json == {"private_key": first}
    assert place.offer(None).json == {"private_key": first}


def test_every_pod_has_a_host_key_of_its_own(place: Machinery, tmp_path: Path) -> None:
    place.offer(a_host_key(tmp_path))
    other = Machinery(place.user)
    assert other.offer(None).json == {"private_key": None}


def test_what_is_no_host_key_is_refused(place: Machinery) -> None:
    reply = place.offer("not a key")
    assert (reply.status, reply.json["errors"][0]["where"]) == (400, "/private_key")
    assert place.offer(None).json == {"private_key": None}


def test_a_machine_that_lost_the_pod_gets_no_host_key(place: Machinery, tmp_path: Path) -> None:
    place.offer(a_host_key(tmp_path))
    store = place.user.deployment.ports.store
    store.commit(Update(replace(store.get(Pod, place.pod_id), machine_id=None)))
    for reply in (place.offer(None), place.say("ssh-keys", {})):
        assert (reply.status, reply.code) == (403, "epoch_stale")


def test_only_machines_get_host_keys(place: Machinery) -> None:
    for path in ("host-key", "ssh-keys"):
        assert place.user.post(f"/agent/v1/{path}", {}).code == "token_invalid"


def test_the_pods_view_says_how_to_log_in(place: Machinery, tmp_path: Path) -> None:
    assert place.ssh() is None
    place.offer(a_host_key(tmp_path))
    public = (tmp_path / "key.pub").read_text().rsplit(" ", 1)[0]
    show_ports(place.user.deployment, place.machine)
    before = place.ssh()
    assert (before["host"], before["port"]) == (None, None)
    assert before["known_hosts"] == f"{place.pod_id} {public}"
    show_ports(place.user.deployment, place.machine, *PORTS)
    shown = place.ssh()
    listed = subprocess.run(
        ["ssh-keygen", "-lf", tmp_path / "key.pub"], capture_output=True, check=True, text=True
    )
    assert shown == {
        "host": "203.0.113.7",
        "port": 40022,
        "user": "root",
        "host_key": public,
        "host_key_fingerprint": listed.stdout.split()[1],
        "known_hosts": f"[203.0.113.7]:40022,{place.pod_id} {public}",
    }


@pytest.mark.parametrize("name", ["[203.0.113.7]:40022", "POD"])
def test_ssh_finds_the_host_key_under_both_names(
    place: Machinery, tmp_path: Path, name: str
) -> None:
    place.offer(a_host_key(tmp_path))
    show_ports(place.user.deployment, place.machine, *PORTS)
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(place.ssh()["known_hosts"] + "\n")
    wanted = place.pod_id if name == "POD" else name
    found = subprocess.run(
        ["ssh-keygen", "-F", wanted, "-f", known_hosts], capture_output=True, check=False, text=True
    )
    assert place.ssh()["host_key"] in found.stdout


def test_no_reply_to_a_user_and_no_event_has_the_private_key(
    place: Machinery, tmp_path: Path
) -> None:
    place.offer(a_host_key(tmp_path))
    secret = (tmp_path / "key").read_text().splitlines()[3]
    pod = f"/v1/pods/{place.pod_id}"
    for path in (pod, f"{pod}/events", "/v1/pods"):
        assert secret not in str(place.user.get(path).json)
    events = place.user.get(f"{pod}/events").json["data"]
    (made,) = [event for event in events if event["type"] == "pod.host_key_made"]
    assert made["evidence"]["fingerprint"] == place.ssh()["host_key_fingerprint"]
    key = place.user.deployment.ports.store.get(HostKey, place.pod_id)
    assert secret not in repr(key)


def test_a_deleted_pod_leaves_no_host_key(place: Machinery, tmp_path: Path) -> None:
    place.offer(a_host_key(tmp_path))
    store = place.user.deployment.ports.store
    pod = store.get(Pod, place.pod_id)
    stopped = replace(pod, state=PodState.STOPPED, machine_id=None, operation_id=None)
    store.commit(Update(stopped))
    assert place.user.delete(f"/v1/pods/{place.pod_id}").status == 204
    assert store.find(HostKey, place.pod_id) is None


def test_changed_keys_of_the_account_open_the_pod_at_once(place: Machinery) -> None:
    assert place.say("ssh-keys", {}).json == {"authorized_keys": []}
    added = place.user.post("/v1/ssh-keys", {"name": "laptop", "public_key": PUBLIC_KEY}).json
    assert place.say("ssh-keys", {}).json == {"authorized_keys": [PUBLIC_KEY]}
    place.user.delete(f"/v1/ssh-keys/{added['id']}")
    assert place.say("ssh-keys", {}).json == {"authorized_keys": []}
