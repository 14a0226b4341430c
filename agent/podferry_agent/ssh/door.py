"""Who may come in and what they may ask for: one `Door` for each connection."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import asyncssh

from podferry_agent.ssh.keys import AuthorizedKeys
from podferry_agent.ssh.login import Login
from podferry_agent.ssh.messages import Counts

_LOG = logging.getLogger(__name__)
# Ports that face the internet are knocked at all day long.
_KNOCKING = 30
_OWN_HOSTS = frozenset({"", "localhost", "127.0.0.1", "::1"})


@dataclass(slots=True)
class House:
    """What all doors of one server share."""

    keys: AuthorizedKeys
    make_login: Callable[[], Login]
    on_counts: Callable[[Counts], None]
    own_key: bytes = b""
    """Of the server's own probe while one is under way."""
    knocking: int = 0
    counts: Counts = field(default_factory=Counts)

    def count(self, *, sessions: int = 0, logins: int = 0, refused: int = 0) -> None:
        now = self.counts
        self.counts = Counts(now.sessions + sessions, now.logins + logins, now.refused + refused)
        self.on_counts(self.counts)


class Door(asyncssh.SSHServer):
    """Public keys only. The connection counts as a session from its login to its end."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._offered = 0
        self._is_own = False
        self._is_in = False

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._house.knocking += 1
        if self._house.knocking > _KNOCKING:
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncssh's
        if not self._is_in:
            self._house.knocking -= 1
            if self._offered:
                _LOG.warning("ssh_login_refused", extra={"keys_offered": self._offered})
                self._house.count(refused=1)
        elif not self._is_own:
            self._house.count(sessions=-1)

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether the key may be used; that the client has it is checked by asyncssh."""
        if username not in self._house.make_login().names:
            self._offered += 1
            return False
        self._is_own = key.public_data == self._house.own_key
        if self._is_own or await self._house.keys.allows(key.public_data):
            return True
        self._offered += 1
        return False

    def auth_completed(self) -> None:
        self._is_in = True
        self._house.knocking -= 1
        if not self._is_own:
            self._house.count(sessions=1, logins=1)

    def connection_requested(
        self,
        dest_host: str,  # noqa: ARG002 - asyncssh's, here and below
        dest_port: int,  # noqa: ARG002
        orig_host: str,  # noqa: ARG002
        orig_port: int,  # noqa: ARG002
    ) -> bool:
        """Whoever has a shell can open any connection anyway."""
        return True

    def server_requested(self, listen_host: str, listen_port: int) -> bool:  # noqa: ARG002
        """Only within the box, as OpenSSH does it without GatewayPorts."""
        return listen_host in _OWN_HOSTS

    def unix_connection_requested(self, dest_path: str) -> bool:  # noqa: ARG002
        return True

    def unix_server_requested(self, listen_path: str) -> bool:  # noqa: ARG002
        return True
