"""The `Installer` over asyncssh: one connection for each call."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import asyncssh

from podferry.adapters.providers.scrub import scrub
from podferry.adapters.providers.vm_launch import start_script
from podferry.adapters.ssh.commands import (
    ENDED,
    NOTHING,
    STARTED,
    UPLOADED,
    start_command,
    upload_command,
)
from podferry.domain.errors import (
    BootFailedError,
    HostChangedError,
    LoginRefusedError,
    UnreachableError,
)
from podferry.ports.gpu_cloud import LaunchRequest
from podferry.ports.installer import LONGEST_CALL_SECONDS, Access, KeyPair

_KEY_TYPE = "ssh-ed25519"
_CONNECT_SECONDS = 10.0
_LOGIN_SECONDS = 15.0

T = TypeVar("T")
Connection = asyncssh.SSHClientConnection

# At its other levels it tells of every connection.
logging.getLogger("asyncssh").setLevel(logging.ERROR)


class SshInstaller:
    """See the port."""

    def make_key(self) -> KeyPair:
        """See the port."""
        key = asyncssh.generate_private_key(_KEY_TYPE, comment="")
        return KeyPair(key.export_private_key().decode(), _line(key.convert_to_public()))

    def greet(self, access: Access) -> str:
        """See the port."""

        async def host_key(connection: Connection) -> str:
            shown = connection.get_server_host_key()
            if shown is None:
                raise UnreachableError("the machine showed no host key")
            return _line(shown)

        return _within(access, host_key)

    def upload(self, access: Access, request: LaunchRequest) -> None:
        """See the port."""
        script = start_script(request).encode()

        async def send(connection: Connection) -> str:
            return await _said(connection, upload_command(len(script)), script)

        said = _within(access, send)
        if UPLOADED not in said:
            raise UnreachableError(f"the bootstrap was not taken: {scrub(said) or 'no answer'}")

    def start(self, access: Access) -> None:
        """See the port."""

        async def ask(connection: Connection) -> str:
            return await _said(connection, start_command())

        said = _within(access, ask)
        if NOTHING in said or ENDED in said:
            raise BootFailedError(f"the bootstrap on the machine does not run: {scrub(said)}")
        if STARTED not in said:
            raise UnreachableError(f"the bootstrap was not started: {scrub(said) or 'no answer'}")


def _within(access: Access, work: Callable[[Connection], Awaitable[T]]) -> T:
    """What `work` makes of a connection, in the time of one call."""

    async def call() -> T:
        async with asyncio.timeout(LONGEST_CALL_SECONDS), _connected(access) as connection:
            return await work(connection)

    where = f"{access.login.host}:{access.login.port}"
    try:
        return asyncio.run(call())
    except asyncssh.PermissionDenied as error:
        raise LoginRefusedError(f"{where} does not take our key as {access.login.user}") from error
    except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
        # Who has no key of the kind that was kept cannot even agree on one.
        if access.host_key is None:
            raise UnreachableError(f"{where}: {_words(error)}") from error
        raise HostChangedError(f"{where} shows another host key than before") from error
    except (OSError, TimeoutError, asyncssh.Error) as error:
        raise UnreachableError(f"{where}: {_words(error)}") from error


@asynccontextmanager
async def _connected(access: Access) -> AsyncIterator[Connection]:
    known = None if access.host_key is None else _trusted(access.host_key)
    connection = await asyncssh.connect(
        access.login.host,
        access.login.port,
        username=access.login.user,
        client_keys=[asyncssh.import_private_key(access.private_key)],
        known_hosts=known,
        preferred_auth="publickey",
        agent_path=None,
        config=None,
        connect_timeout=_CONNECT_SECONDS,
        login_timeout=_LOGIN_SECONDS,
    )
    try:
        yield connection
    finally:
        # Nothing is owed to the other side: waiting for its goodbye could take all of our time.
        connection.abort()


def _trusted(host_key: str) -> tuple[list[asyncssh.SSHKey], list[object], list[object]]:
    return [asyncssh.import_public_key(host_key)], [], []


async def _said(connection: Connection, command: str, given: bytes = b"") -> str:
    """What the command printed last; nothing of `given` is ever printed."""
    # asyncssh leaves the input of a command open that is given nothing.
    source = {"input": given} if given else {"stdin": asyncssh.DEVNULL}
    done = await connection.run(command, encoding=None, check=False, **source)
    printed = b"".join(part for part in (done.stdout, done.stderr) if isinstance(part, bytes))
    return printed.decode(errors="replace").strip()[-400:]


def _line(key: asyncssh.SSHKey) -> str:
    algorithm, text = key.export_public_key().decode().split()[:2]
    return f"{algorithm} {text}"


def _words(error: Exception) -> str:
    return scrub(f"{type(error).__name__}: {error}"[:200])
