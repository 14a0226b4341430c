"""The server's process: takes its settings from the agent, listens, and ends with the agent."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import asyncssh

from podferry_agent.fields import Fields
from podferry_agent.ssh.children import Children
from podferry_agent.ssh.door import Door, House
from podferry_agent.ssh.files import Files
from podferry_agent.ssh.keys import AuthorizedKeys
from podferry_agent.ssh.link import Link
from podferry_agent.ssh.login import Login, LoginMaker
from podferry_agent.ssh.messages import EXIT_FAILED, Counts, Setup, content_of
from podferry_agent.ssh.selfprobe import log_in
from podferry_agent.ssh.sessions import Sessions

_KEY_TYPE = "ssh-ed25519"
_LOGIN_SECONDS = 30
# A client that has gone without a word is let go after two minutes.
_KEEPALIVE_SECONDS = 30
_KEEPALIVE_TRIES = 4


async def serve() -> int:
    """The exit code; 0 when the agent has gone."""
    link = Link()
    await link.open()
    setup = await _first_words(link)
    if setup is None:
        return 0
    server = Server(link, setup)
    try:
        await server.listen()
    except OSError as error:
        link.send("failed", f"cannot listen on {setup.host or '*'}:{setup.port}: {error.strerror}")
        return EXIT_FAILED
    try:
        await link.follow(server.handlers())
    finally:
        server.close()
    return 0


async def _first_words(link: Link) -> Setup | None:
    """The settings with a host key: the pod's, or one that the control plane made the pod's."""
    fields = await link.expect("setup")
    if fields is None:
        return None
    setup = Setup.parse(content_of("setup", fields))
    if setup.host_key is not None:
        return setup
    made = asyncssh.generate_private_key(_KEY_TYPE, comment="")
    link.send("made_host_key", made.export_private_key().decode())
    fields = await link.expect("host_key")
    return None if fields is None else replace(setup, host_key=fields.text("host_key"))


@dataclass(slots=True)
class Server:
    """Everything of one listening server."""

    link: Link
    setup: Setup
    _logins: LoginMaker = field(init=False)
    _keys: AuthorizedKeys = field(init=False)
    _house: House = field(init=False)
    _sessions: Sessions = field(init=False)
    _host_key: asyncssh.SSHKey = field(init=False)
    _acceptor: asyncssh.SSHAcceptor = field(init=False)
    _probing: "asyncio.Task[None] | None" = field(init=False, default=None)

    def __post_init__(self) -> None:
        children = Children()
        children.watch()
        self._logins = LoginMaker(Path(self.setup.root), self.setup.environment)
        self._keys = AuthorizedKeys(lambda: self.link.send("wants_keys", content=True))
        self._house = House(self._keys, self._login, self._tell_counts)
        self._sessions = Sessions(self._login, children)
        self._host_key = asyncssh.import_private_key(self.setup.host_key or "")

    async def listen(self) -> None:
        """Raises: OSError if the port cannot be had."""
        self._acceptor = await asyncssh.listen(
            self.setup.host,
            self.setup.port,
            server_factory=lambda: Door(self._house),
            server_host_keys=[self._host_key],
            process_factory=self._sessions.run,
            sftp_factory=self._files,
            allow_scp=True,
            encoding=None,
            # The terminal and the shell edit lines; asyncssh must pass every byte on.
            line_editor=False,
            agent_forwarding=False,
            x11_forwarding=False,
            public_key_auth=True,
            password_auth=False,
            kbdint_auth=False,
            host_based_auth=False,
            server_version="Podferry",
            login_timeout=_LOGIN_SECONDS,
            keepalive_interval=_KEEPALIVE_SECONDS,
            keepalive_count_max=_KEEPALIVE_TRIES,
        )
        self.link.send("listening", self._acceptor.get_port())

    def close(self) -> None:
        """Ends the sessions of an agent that has gone."""
        self._acceptor.close()
        self._sessions.kill_all()

    def handlers(self) -> dict[str, Callable[[Fields], None]]:
        return {
            "keys": lambda fields: self._keys.learn(fields.texts("keys")),
            "keys_unchanged": lambda _fields: self._keys.go_on(),
            "environment": self._learn_environment,
            "probe": self._begin_probe,
        }

    def _learn_environment(self, fields: Fields) -> None:
        environment = fields.text_map("environment")
        self._logins = LoginMaker(Path(self.setup.root), environment)

    def _begin_probe(self, _fields: Fields) -> None:
        self._probing = asyncio.create_task(self._probe())

    async def _probe(self) -> None:
        """With a key that nobody else ever sees."""
        key = asyncssh.generate_private_key(_KEY_TYPE)
        self._house.own_key = key.public_data
        problem = await log_in(self._acceptor.get_port(), self._host_key, key)
        self._house.own_key = b""
        self.link.send("probed", problem or "")

    def _login(self) -> Login:
        return self._logins.make()

    def _files(self, channel: "asyncssh.SSHServerChannel[bytes]") -> Files:
        return Files(channel, self._login().home, self.setup.root)

    def _tell_counts(self, counts: Counts) -> None:
        self.link.send("counts", counts.to_json())
