"""One whole stack for all end-to-end tests; each test has an account of its own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.stack import LocalStack

sys.path.insert(0, str(Path(__file__).parent))

from deployment import Deployment, User


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    stack = LocalStack(tmp_path_factory.mktemp("stack"), print)
    try:
        stack.start()
        yield Deployment(stack)
    finally:
        stack.stop()


@pytest.fixture
def user(deployment: Deployment) -> Iterator[User]:
    """A new account; whatever it leaves running is stopped without asking for its data."""
    deployment.clear_faults()
    user = deployment.new_user()
    try:
        yield user
    finally:
        deployment.clear_faults()
        user.leave()
