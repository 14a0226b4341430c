"""How the store copes with what only the real DynamoDB does: answers in parts, indexes that lag."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.stub import ANY, Stubber

from podferry.adapters.aws.clients import AwsClients
from podferry.adapters.dynamo.codec import to_item
from podferry.adapters.dynamo.store import DynamoStore
from podferry.domain.errors import InternalError
from podferry.domain.pod import Pod, PodState
from tests.contract.entities import a_pod
from tests.unit.adapters.clients import some_clients


@pytest.fixture(scope="module")
def clients() -> AwsClients:
    return some_clients()


def keys_of(*pods: Pod) -> list[dict[str, Any]]:
    items = [to_item(pod, pod.revision) for pod in pods]
    return [{"pk": item["pk"], "sk": item["sk"]} for item in items]


def test_a_row_is_read_as_it_was_last_written(clients: AwsClients) -> None:
    pod = a_pod()
    expected = {"TableName": "table", "Key": keys_of(pod)[0], "ConsistentRead": True}
    with Stubber(clients.dynamodb) as stubber:
        stubber.add_response("get_item", {"Item": to_item(pod, 3)}, expected)

        assert DynamoStore(clients, "table").get(Pod, pod.id) == replace(pod, revision=3)


def test_rows_that_an_index_still_names_but_that_moved_on_are_left_out(clients: AwsClients) -> None:
    mine, moved, gone = a_pod(account_id="me"), a_pod(account_id="you"), a_pod(account_id="me")
    batch = {"table": {"Keys": keys_of(mine, moved, gone), "ConsistentRead": True}}
    with Stubber(clients.dynamodb) as stubber:
        stubber.add_response("query", {"Items": keys_of(mine, moved, gone)})
        stubber.add_response(
            "batch_get_item",
            {"Responses": {"table": [to_item(moved, 0), to_item(mine, 0)]}},
            {"RequestItems": batch},
        )

        page = DynamoStore(clients, "table").list_owned(Pod, "me")

    assert list(page.items) == [mine]
    assert page.cursor is None


def test_rows_that_an_index_still_calls_active_but_that_rest_are_left_out(
    clients: AwsClients,
) -> None:
    running, stopped = a_pod(), a_pod(state=PodState.STOPPED)
    with Stubber(clients.dynamodb) as stubber:
        stubber.add_response("query", {"Items": keys_of(running, stopped)})
        items = [to_item(running, 0), to_item(stopped, 0)]
        stubber.add_response("batch_get_item", {"Responses": {"table": items}})

        assert list(DynamoStore(clients, "table").list_active(Pod)) == [running]


def test_a_list_goes_on_while_the_index_does(clients: AwsClients) -> None:
    first, second = a_pod(), a_pod()
    last_key = keys_of(first)[0]
    with Stubber(clients.dynamodb) as stubber:
        stubber.add_response("query", {"Items": [], "LastEvaluatedKey": last_key})
        stubber.add_response(
            "query",
            {"Items": keys_of(first, second)},
            {
                "TableName": "table",
                "IndexName": "active",
                "KeyConditionExpression": ANY,
                "ExpressionAttributeValues": ANY,
                "Limit": 100,
                "ExclusiveStartKey": last_key,
            },
        )
        items = [to_item(second, 0), to_item(first, 0)]
        stubber.add_response("batch_get_item", {"Responses": {"table": items}})

        assert list(DynamoStore(clients, "table").list_active(Pod)) == [first, second]


def test_a_batch_that_is_never_answered_ends(clients: AwsClients) -> None:
    (key,) = keys_of(a_pod())
    with Stubber(clients.dynamodb) as stubber:
        stubber.add_response("query", {"Items": [key]})
        stubber.add_response(
            "batch_get_item",
            {"Responses": {}, "UnprocessedKeys": {"table": {"Keys": [key]}}},
        )
        with pytest.raises(InternalError, match="answered nothing"):
            DynamoStore(clients, "table").list_owned(Pod, "acct_1")


def test_a_batch_that_is_answered_in_parts_is_put_together_in_order(clients: AwsClients) -> None:
    pods = [a_pod(), a_pod(), a_pod()]
    items, keys = [to_item(pod, 0) for pod in pods], keys_of(*pods)
    with Stubber(clients.dynamodb) as stubber:
        stubber.add_response("query", {"Items": keys})
        stubber.add_response(
            "batch_get_item",
            {
                "Responses": {"table": [items[2]]},
                "UnprocessedKeys": {"table": {"Keys": keys[:2]}},
            },
        )
        stubber.add_response("batch_get_item", {"Responses": {"table": [items[1], items[0]]}})

        page = DynamoStore(clients, "table").list_owned(Pod, pods[0].account_id)

    assert list(page.items) == pods
