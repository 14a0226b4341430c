"""Logs in to the server itself, over the loopback device: the proof that a user could."""

import asyncssh

_TIMEOUT_SECONDS = 20.0
_WORD = "ready"


async def log_in(port: int, host_key: asyncssh.SSHKey, client_key: asyncssh.SSHKey) -> str | None:
    """What is wrong, or None if a command ran after a login with this key."""
    try:
        async with asyncssh.connect(
            "127.0.0.1",
            port,
            username="root",
            client_keys=[client_key],
            known_hosts=([host_key.convert_to_public()], [], []),
            agent_path=None,
            config=None,
            connect_timeout=_TIMEOUT_SECONDS,
            login_timeout=_TIMEOUT_SECONDS,
        ) as connection:
            done = await connection.run(f"echo {_WORD}", timeout=_TIMEOUT_SECONDS)
    except (OSError, ValueError, TimeoutError, asyncssh.Error) as error:
        return f"{type(error).__name__}: {error}"
    if done.exit_status != 0 or str(done.stdout).strip() != _WORD:
        return f"'echo {_WORD}' ended with {done.exit_status}: {str(done.stderr)[:200]}"
    return None
