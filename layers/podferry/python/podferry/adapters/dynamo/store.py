"""The store of a deployment: one DynamoDB table, every write conditional."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from botocore.exceptions import ClientError

from podferry.adapters.aws.errors import aws_errors, refused_position
from podferry.adapters.dynamo import keys
from podferry.adapters.dynamo.codec import from_item, to_item
from podferry.adapters.dynamo.commit import check_commit, check_limit, conflict_on
from podferry.adapters.dynamo.cursor import decode_cursor, encode_cursor
from podferry.adapters.dynamo.keys import Item
from podferry.domain.entity import Entity
from podferry.domain.errors import InternalError, NotFoundError
from podferry.ports.store import Change, Check, Create, Delete, Page, Update

if TYPE_CHECKING:
    from podferry.adapters.aws.clients import AwsClients

E = TypeVar("E", bound=Entity)

_BATCH = 100
"""Keys in one BatchGetItem; DynamoDB takes no more."""


class DynamoStore:
    """A `Store` over one table; see `keys.py` for its columns."""

    def __init__(self, clients: AwsClients, table: str) -> None:
        self._clients = clients
        self._table = table

    def find(self, kind: type[E], entity_id: str) -> E | None:
        key = keys.row_key(kind, entity_id)
        with aws_errors(f"read {entity_id}"):
            answer: Any = self._clients.dynamodb.get_item(
                TableName=self._table, Key=key, ConsistentRead=True
            )
        item = answer.get("Item")
        return None if item is None else from_item(kind, item)

    def get(self, kind: type[E], entity_id: str) -> E:
        entity = self.find(kind, entity_id)
        if entity is None:
            raise NotFoundError(f"there is no {kind.__name__.lower()} {entity_id}")
        return entity

    def commit(self, *changes: Change) -> None:
        check_commit(changes)
        write_id = uuid.uuid4().hex
        with aws_errors("write " + ", ".join(change.entity.id for change in changes)):
            try:
                self._write(changes, write_id)
            except ClientError as error:
                position = refused_position(error)
                if position is None:
                    raise
                if not _is_own_write(error, write_id):
                    raise conflict_on(changes[position]) from error

    def _write(self, changes: Sequence[Change], write_id: str) -> None:
        """A single row is written by itself: that costs half of a transaction."""
        match changes:
            case (Create() | Update() as change,):
                self._clients.dynamodb.put_item(
                    **self._put(change, write_id), ReturnValuesOnConditionCheckFailure="ALL_OLD"
                )
            case (Delete() as change,):
                self._clients.dynamodb.delete_item(**self._at(change))
            case _:
                # botocore adds a token, so that a request it repeats is carried out once.
                self._clients.dynamodb.transact_write_items(
                    TransactItems=[self._part(change, write_id) for change in changes]
                )

    def _part(self, change: Change, write_id: str) -> Any:
        match change:
            case Create() | Update():
                return {"Put": self._put(change, write_id)}
            case Check():
                return {"ConditionCheck": self._at(change)}
            case Delete():
                return {"Delete": self._at(change)}
        assert_never(change)

    def _put(self, change: Create | Update, write_id: str) -> Any:
        entity = change.entity
        revision = entity.revision + (1 if isinstance(change, Update) else 0)
        item = {**to_item(entity, revision), keys.WRITE_ID: {"S": write_id}}
        request = {"TableName": self._table, "Item": item}
        if isinstance(change, Create):
            return {**request, "ConditionExpression": f"attribute_not_exists({keys.PK})"}
        return {**request, **_is_at(entity.revision)}

    def _at(self, change: Check | Delete) -> Any:
        entity = change.entity
        key = keys.row_key(type(entity), entity.id)
        return {"TableName": self._table, "Key": key, **_is_at(entity.revision)}

    def list_owned(
        self,
        kind: type[E],
        owner: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
    ) -> Page[E]:
        check_limit(limit)
        partition = keys.owned_partition(kind, owner)
        query = {
            "IndexName": keys.OWNED_INDEX,
            "ScanIndexForward": not newest_first,
            **_equals(keys.OWNED_PK, partition),
        }
        if cursor is not None:
            last = decode_cursor(partition, cursor)
            query["ExclusiveStartKey"] = keys.owned_key(kind, owner, last)
        rows: list[E] = []
        # One more than asked for tells whether the list goes on.
        for batch in self._batches(kind, query, min(limit + 1, _BATCH)):
            rows += [row for row in batch if row.owner == owner]
            if len(rows) > limit:
                return Page(rows[:limit], encode_cursor(partition, rows[limit - 1].id))
        return Page(rows, None)

    def list_active(self, kind: type[E]) -> Iterator[E]:
        partition = keys.active_partition(kind)
        query = {"IndexName": keys.ACTIVE_INDEX, **_equals(keys.ACTIVE_PK, partition)}
        for batch in self._batches(kind, query, _BATCH):
            yield from (row for row in batch if row.is_active)

    def _batches(self, kind: type[E], query: dict[str, Any], size: int) -> Iterator[list[E]]:
        """The rows that an index names, in its order, read from the table itself.

        The index may lag behind the table, so callers look again whether a row belongs.
        """
        request = {"TableName": self._table, "Limit": size, **query}
        while True:
            with aws_errors(f"list rows of kind {kind.__name__}"):
                answer: Any = self._clients.dynamodb.query(**request)
            yield self._read(kind, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _read(self, kind: type[E], index_entries: Iterable[Item]) -> list[E]:
        wanted = [{keys.PK: entry[keys.PK], keys.SK: entry[keys.SK]} for entry in index_entries]
        found: dict[str, Item] = {}
        open_keys = wanted
        while open_keys:
            items, still_open = self._read_some(kind, open_keys)
            if not items and len(still_open) == len(open_keys):
                raise InternalError(f"AWS answered nothing to: read {len(open_keys)} rows; retry")
            found.update({item[keys.PK]["S"]: item for item in items})
            open_keys = still_open
        names = [key[keys.PK]["S"] for key in wanted]
        return [from_item(kind, found[name]) for name in names if name in found]

    def _read_some(self, kind: type[E], some: list[Item]) -> tuple[list[Item], list[Item]]:
        """Rows, and the keys that did not fit into the answer (16 MB)."""
        request: Any = {self._table: {"Keys": some, "ConsistentRead": True}}
        with aws_errors(f"read {len(some)} rows of kind {kind.__name__}"):
            answer: Any = self._clients.dynamodb.batch_get_item(RequestItems=request)
        still_open = answer.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", [])
        return answer["Responses"].get(self._table, []), still_open


def _is_at(revision: int) -> dict[str, Any]:
    return {
        "ConditionExpression": f"{keys.REVISION} = :revision",
        "ExpressionAttributeValues": {":revision": {"N": str(revision)}},
    }


def _equals(column: str, value: str) -> dict[str, Any]:
    return {
        "KeyConditionExpression": f"{column} = :value",
        "ExpressionAttributeValues": {":value": {"S": value}},
    }


def _is_own_write(error: ClientError, write_id: str) -> bool:
    """Whether the row in the way is the very one that we wanted to write.

    When an answer is lost botocore repeats the request, and the second one meets the row that the
    first one wrote.
    """
    stored: Any = error.response.get("Item", {})
    return bool(stored.get(keys.WRITE_ID) == {"S": write_id})
