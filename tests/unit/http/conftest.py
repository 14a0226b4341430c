"""A fresh deployment in memory for each test."""

import pytest

from tests.unit.http.deployment import Deployment, User


@pytest.fixture
def deployment() -> Deployment:
    return Deployment()


@pytest.fixture
def user(deployment: Deployment) -> User:
    return deployment.an_account()
