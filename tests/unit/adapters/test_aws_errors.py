"""Every error that AWS declares for what we call comes out as one of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from botocore.stub import Stubber

from podferry.adapters.aws.clients import AwsClients
from podferry.adapters.aws.errors import aws_errors, cancellation_reasons, refused_position
from podferry.adapters.dynamo.store import DynamoStore
from podferry.domain.errors import ConflictError, InternalError
from podferry.domain.pod import Pod
from podferry.ports.store import Create, Delete, Store, Update
from tests.contract.entities import a_pod, a_volume
from tests.unit.adapters.clients import some_clients

CONFLICTS = {
    "ConditionalCheckFailedException",
    "TransactionConflictException",
    "TransactionInProgressException",
}
CALLS: dict[str, Callable[[Store], Any]] = {
    "get_item": lambda store: store.find(Pod, "pod_1"),
    "put_item": lambda store: store.commit(Update(a_pod())),
    "delete_item": lambda store: store.commit(Delete(a_pod())),
    "transact_write_items": lambda store: store.commit(Create(a_pod()), Create(a_volume())),
    "query": lambda store: store.list_owned(Pod, "acct_1"),
}
UNDECLARED = {"AccessDeniedException", "ThrottlingException", "ValidationException", "Surprise"}


@pytest.fixture(scope="module")
def clients() -> AwsClients:
    return some_clients()


def declared(clients: AwsClients, method: str) -> set[str]:
    model = clients.dynamodb.meta.service_model
    operation = model.operation_model(clients.dynamodb.meta.method_to_api_mapping[method])
    return {shape.name for shape in operation.error_shapes}


@pytest.mark.parametrize("method", CALLS)
def test_every_declared_error_is_a_conflict_or_our_own_mistake(
    clients: AwsClients, method: str
) -> None:
    codes = declared(clients, method) | UNDECLARED
    assert len(codes) > len(UNDECLARED)

    for code in sorted(codes):
        expected = ConflictError if code in CONFLICTS else InternalError
        with Stubber(clients.dynamodb) as stubber:
            stubber.add_client_error(method, code, "text with the name of a table")
            with pytest.raises(expected) as caught:
                CALLS[method](DynamoStore(clients, "table"))
        assert type(caught.value) is expected, code
        assert isinstance(caught.value.__cause__, ClientError)
        assert "name of a table" not in caught.value.detail
        if expected is InternalError:
            assert code in caught.value.detail


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["None", "ConditionalCheckFailed"], ConflictError),
        (["TransactionConflict", "None"], ConflictError),
        (["ThrottlingError", "ConditionalCheckFailed"], ConflictError),
        (["ThrottlingError", "None"], InternalError),
        (["None", "ValidationError"], InternalError),
        (["ItemCollectionSizeLimitExceeded", "None"], InternalError),
    ],
)
def test_a_cancelled_transaction_is_a_conflict_only_where_a_condition_failed(
    clients: AwsClients, reasons: list[str], expected: type[Exception]
) -> None:
    changes = [Create(a_pod()), Create(a_pod())]
    with Stubber(clients.dynamodb) as stubber:
        stubber.add_client_error(
            "transact_write_items",
            "TransactionCanceledException",
            modeled_fields={"CancellationReasons": [{"Code": reason} for reason in reasons]},
        )
        with pytest.raises(expected) as caught:
            DynamoStore(clients, "table").commit(*changes)

    assert type(caught.value) is expected
    named = changes[1 if reasons[1] == "ConditionalCheckFailed" else 0].entity.id
    assert named in str(caught.value)


def test_the_reasons_of_a_cancelled_transaction_are_named() -> None:
    error = ClientError(
        {
            "Error": {"Code": "TransactionCanceledException", "Message": ""},
            "CancellationReasons": [{"Code": "None"}, {"Code": "ThrottlingError"}, {}],
        },
        "TransactWriteItems",
    )

    with (
        pytest.raises(InternalError, match="TransactionCanceledException, None, ThrottlingError"),
        aws_errors("write"),
    ):
        raise error
    assert cancellation_reasons(error) == ("None", "ThrottlingError", "None")
    assert refused_position(error) is None


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="https://secret-host.example"),
        ReadTimeoutError(endpoint_url="https://secret-host.example"),
        NoCredentialsError(),
    ],
)
def test_an_answer_that_does_not_come_is_an_internal_error_without_the_host(
    error: BotoCoreError,
) -> None:
    name = type(error).__name__

    with (
        pytest.raises(InternalError, match=rf"no answer from AWS to: read it \({name}\)") as caught,
        aws_errors("read it"),
    ):
        raise error

    assert "secret-host" not in caught.value.detail
    assert caught.value.__cause__ is error


def test_an_answer_without_a_body_is_an_error_too() -> None:
    with pytest.raises(InternalError, match="without a code"), aws_errors("read it"):
        raise ClientError({}, "GetItem")


def test_our_own_errors_pass_unchanged() -> None:
    with pytest.raises(ConflictError, match="moved"), aws_errors("write"):
        raise ConflictError("moved")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("AccessDeniedException", "lacks a permission"),
        ("ThrottlingException", "try again"),
        ("ResourceNotFoundException", "deploy it again"),
    ],
)
def test_frequent_mistakes_come_with_advice(code: str, advice: str) -> None:
    with pytest.raises(InternalError, match=advice), aws_errors("read it"):
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "GetItem")
