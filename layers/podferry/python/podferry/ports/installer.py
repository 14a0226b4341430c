"""Brings our bootstrap onto a machine that its provider only opens for SSH (`Channel.SSH`).

Each call does one short thing: it logs in, does it, and is gone within `LONGEST_CALL_SECONDS`. None
waits for a machine that is not there yet; the workflow does. All may be called any number of times,
also at the same time: however often `start` is called, the bootstrap is started once.

Secrets travel inside the connection only: no command line, file of others or log has them.
"""

from dataclasses import dataclass, field
from typing import Protocol

from podferry.domain.machine import Login
from podferry.ports.gpu_cloud import LaunchRequest

LONGEST_CALL_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key that opens one machine."""

    private_key: str = field(repr=False)
    public_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to get in."""

    login: Login
    private_key: str = field(repr=False)
    host_key: str | None
    """The key that the machine has to show; `None` takes any, which then has to be kept."""


class Installer(Protocol):
    """Logs in to machines.

    Every method that takes an `Access` may raise:
        UnreachableError: nothing answers, or the connection broke; what was asked may be done.
        LoginRefusedError: the machine answers and does not take our key (yet).
        HostChangedError: it shows another host key. Nothing was sent to it.
    """

    def make_key(self) -> KeyPair:
        """A new Ed25519 pair."""

    def greet(self, access: Access) -> str:
        """Log in and do nothing; the host key that the machine showed, as `ssh-ed25519 <base64>`.

        Only what is called with that key afterwards sends anything.
        """

    def upload(self, access: Access, request: LaunchRequest) -> None:
        """Put the bootstrap of `request` onto the machine, whole or not at all.

        Once it was started it is left as it is.
        """

    def start(self, access: Access) -> None:
        """Start what was uploaded, detached, and see that it took.

        Raises:
            BootFailedError: nothing was uploaded, or what was started has already ended.
        """
