"""The host's network, which all boxes share: what they may not do on it, and what they do instead.

Port 22 is one for all of them, and a box has no right to it. So each is told where else its SSH
server has to listen, which a machine with a network of its own never needs to know.
"""

from __future__ import annotations

import socket

SSH_PORT = 22

_LOOPBACK = "127.0.0.1"


def ssh_listen(port: int = 0) -> dict[str, str]:
    """The variable that tells the agent in a box where to listen; port 0 is any free one."""
    return {"PF_SSH_LISTEN": f"{_LOOPBACK}:{port}"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        return int(probe.getsockname()[1])
