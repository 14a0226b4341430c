"""Starts the SSH server: `python -I -B -m podferry_agent.ssh`, with the agent at its stdin."""

import asyncio
import logging
import sys
from contextlib import suppress
from pathlib import Path

from podferry_agent.box import clean_own_environment
from podferry_agent.logs import configure_logging
from podferry_agent.ssh import PROCESS_NAME


def main() -> int:
    with suppress(OSError):
        # Without /proc there is no quiesce that could look for it either.
        Path("/proc/self/comm").write_text(PROCESS_NAME, encoding="ascii")
    clean_own_environment()
    configure_logging()
    # It tells every command and every file that a user touches.
    logging.getLogger("asyncssh").setLevel(logging.ERROR)
    # Imported after OpenSSL's variables are gone: they are read when it is loaded.
    from podferry_agent.ssh.server import serve  # noqa: PLC0415

    return asyncio.run(serve())


if __name__ == "__main__":
    sys.exit(main())
