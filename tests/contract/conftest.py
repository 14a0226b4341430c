"""One embedded AWS for every contract suite, and moto where it is as strict as AWS."""

from __future__ import annotations

from collections.abc import Iterator

import botocore.session
import pytest
from moto import mock_aws

from podferry.adapters.aws.clients import AwsClients
from podferry.adapters.dynamo.store import DynamoStore
from podferry.adapters.memory.store import MemoryStore
from podferry.ports.store import Store
from tests.contract.embedded import (
    REGION,
    EmbeddedAws,
    make_table,
    start_embedded,
    stop_embedded,
)


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedAws]:
    aws = start_embedded(tmp_path_factory.mktemp("embedded") / "data")
    yield aws
    stop_embedded(aws)


@pytest.fixture(scope="session")
def clients_for_moto() -> AwsClients:
    """Made once, because making a client takes longer than most tests."""
    session = botocore.session.get_session()
    session.set_credentials("moto", "moto")
    session.set_config_variable("region", REGION)
    return AwsClients(session)


@pytest.fixture
def moto_clients(clients_for_moto: AwsClients) -> Iterator[AwsClients]:
    """Clients whose requests end in this process, in an AWS that is empty at first."""
    with mock_aws():
        yield clients_for_moto


@pytest.fixture(params=["memory", "moto", "embedded"])
def store(request: pytest.FixtureRequest) -> Store:
    return _make_store(request)


@pytest.fixture(params=["memory", "embedded"])
def contested_store(request: pytest.FixtureRequest) -> Store:
    """Not in moto: its transactions are not isolated from one another."""
    return _make_store(request)


def _make_store(request: pytest.FixtureRequest) -> Store:
    match request.param:
        case "memory":
            return MemoryStore()
        case "moto":
            clients = request.getfixturevalue("moto_clients")
        case _:
            aws: EmbeddedAws = request.getfixturevalue("embedded")
            clients = aws.clients
    return DynamoStore(clients, make_table(clients.dynamodb))
