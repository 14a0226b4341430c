"""How the suite is spread over processes: tests that share a server share a process."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent
TOGETHER = ("e2e", "chaos", "local/aws", "infra", "contract", "agent/bundle", "agent/runtime")
"""Folders whose session fixtures are dear (a stack, an emulator, a synthesized template), and the
agent's: agents find the processes of their box by a mark that these tests share."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.parent.relative_to(ROOT).as_posix()
        for shared in TOGETHER:
            if folder == shared or folder.startswith(f"{shared}/"):
                # End-to-end tests mostly wait: a stack in each process is worth it.
                own = f"{shared}/{item.path.stem}" if shared == "e2e" else shared
                item.add_marker(pytest.mark.xdist_group(own))
    # The longest group first, so that the processes end at about the same time.
    dear = (ROOT / "e2e", ROOT / "chaos")
    items.sort(key=lambda item: not any(item.path.is_relative_to(folder) for folder in dear))
