"""Starts the agent: `python -I -B -m podferry_agent`, set up by PF_* variables."""

import os
import sys

from podferry_agent.errors import SettingsError
from podferry_agent.init import EXIT_REFUSED, Supervisor
from podferry_agent.logs import configure_logging
from podferry_agent.settings import Settings, read_settings


def main() -> int:
    configure_logging()
    try:
        settings = read_settings(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"podferry-agent: {error}\n")
        return EXIT_REFUSED
    code = Supervisor(lambda: _run_agent(settings)).run()
    return code if code >= 0 else 128 - code


def _run_agent(settings: Settings) -> int:
    # Imported in the child only: the first process lives for months and should stay small.
    from podferry_agent.agent import Agent  # noqa: PLC0415

    return Agent(settings).run()


if __name__ == "__main__":
    sys.exit(main())
