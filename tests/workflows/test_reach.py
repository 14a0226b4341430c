"""How a pod is reached stays the same wherever it lands (case R7)."""

from pathlib import Path

import pytest
from world import World

from podferry.domain.command import CommandKind
from podferry.domain.errors import EpochStaleError
from podferry.domain.host_key import SSH_PORT, HostKey
from podferry.domain.pod import PodState
from podferry.http.models.ssh import SshView
from tests.agent.runtime.ssh_client import make_key


def ssh_of(world, pod):
    whole = world.app.browse.whole_pod(pod.account_id, pod.id)
    view = SshView.of(whole.host_key, whole.running.machine)
    assert view is not None
    return view


def settle(world, key):
    """The pod's present machine asks, and offers one if there is none."""
    principal = world.app.identify.who(world.box.token)
    keep = world.app.keep_host_key.keep
    return keep(principal, None) or keep(principal, key)


def test_case_r7_pod_id_and_host_key_stay_when_a_pod_moves(world: World, tmp_path: Path) -> None:
    pod = world.launch()
    key = settle(world, make_key(tmp_path, "first").read_text())
    before, machine = ssh_of(world, pod), world.machine(pod)
    world.move(pod, providers=("beta",))
    assert world.machine(pod).id != machine.id
    assert settle(world, make_key(tmp_path, "second").read_text()) == key
    after = ssh_of(world, pod)
    assert (after.host_key, after.host_key_fingerprint) == (
        before.host_key,
        before.host_key_fingerprint,
    )
    assert pod.id in before.known_hosts.split()[0].split(",")
    assert pod.id in after.known_hosts.split()[0].split(",")


def test_host_key_outlives_a_stop_and_a_start(world: World, tmp_path: Path) -> None:
    pod = world.launch()
    key = settle(world, make_key(tmp_path, "first").read_text())
    world.stop(pod)
    assert ssh_of(world, pod).host is None
    world.start(pod)
    assert settle(world, make_key(tmp_path, "second").read_text()) == key


def test_machine_that_a_pod_has_left_gets_no_host_key(world: World, tmp_path: Path) -> None:
    pod = world.launch()
    settle(world, make_key(tmp_path, "first").read_text())
    left = world.app.identify.who(world.box.token)
    world.move(pod, providers=("beta",))
    with pytest.raises(EpochStaleError):
        world.app.keep_host_key.keep(left, None)
    with pytest.raises(EpochStaleError):
        world.app.list_logins.list(left)


def test_of_two_machines_that_offer_a_key_at_once_one_wins(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = world.launch()
    mine, other = make_key(tmp_path, "mine").read_text(), make_key(tmp_path, "other").read_text()
    principal = world.app.identify.who(world.box.token)
    keep, commit = world.app.keep_host_key, world.app.store.commit

    def overtaken(*changes):
        monkeypatch.undo()
        assert keep.keep(principal, other) == other
        commit(*changes)

    monkeypatch.setattr(type(world.app.store), "commit", lambda _, *changes: overtaken(*changes))
    assert keep.keep(principal, mine) == other
    assert world.row(HostKey, pod.id).private_key == other


@pytest.mark.parametrize("ports", [(8000,), (8000, SSH_PORT)])
def test_every_launch_asks_for_the_ssh_port_besides_the_users_own(
    world: World, ports: tuple[int, ...]
) -> None:
    world.launch(ports=ports)
    assert world.box.request.ports == (SSH_PORT, 8000)


def test_case_p17_machine_that_lets_nobody_in_is_given_back_and_another_one_runs_the_pod(
    world: World,
) -> None:
    pod = world.create()
    world.run(until=lambda: len(world.boxes()) == 1)
    (first,) = world.boxes()
    first.fails[CommandKind.RUN], first.failure_code = 1, "ssh_probe_failed"
    world.run()
    assert world.pod(pod).state == PodState.RUNNING
    assert first.is_gone
    assert world.machine(pod).provider_id != first.provider_id
