"""Boxes share the host's network, so that each has its port 22 somewhere else."""

import socket

from local.boxes.network import SSH_PORT
from podferry.domain.host_key import SSH_PORT as PODS_SSH_PORT


def variables_of(simulator, instance):
    lines = simulator.exec(instance, "tr '\\0' '\\n' < /proc/1/environ").splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_the_port_that_is_moved_is_the_one_that_pods_use():
    assert SSH_PORT == PODS_SSH_PORT


def test_port_22_of_two_boxes_are_two_ports_that_both_lead_inside(vast):
    found = set()
    for word in (b"one", b"two"):
        instance = vast.launch(env={"-p 22:22": "1"})
        vast.wait_phase(instance, "running")
        host, _, port = variables_of(vast, instance)["PF_SSH_LISTEN"].partition(":")
        outside = int(vast.get(instance)["ports"]["22/tcp"][0]["HostPort"])
        with (
            socket.create_server((host, int(port))) as server,
            socket.create_connection(("127.0.0.1", outside), timeout=5) as user,
        ):
            inside, _ = server.accept()
            with inside:
                inside.sendall(word)
                assert user.recv(10) == word
        found |= {int(port), outside}
    assert len(found) == 4
    assert SSH_PORT not in found
