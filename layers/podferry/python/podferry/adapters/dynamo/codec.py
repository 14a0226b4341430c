"""Entities as rows of the table and back."""

from dataclasses import replace
from typing import TypeVar

from podferry.adapters.dynamo.attributes import UnstorableError, depth, size_bytes
from podferry.adapters.dynamo.keys import DATA, PK, REVISION, Item, index_attributes
from podferry.adapters.dynamo.values import codec_of
from podferry.domain.entity import Entity
from podferry.domain.errors import InternalError

E = TypeVar("E", bound=Entity)

ROW_LIMIT_BYTES = 400 * 1024
DEPTH_LIMIT = 32


def to_item(entity: Entity, revision: int) -> Item:
    """The whole row, with this revision.

    Raises:
        InternalError: a value that cannot be stored, or more than a row can hold.
    """
    kind = type(entity)
    item = index_attributes(entity)
    try:
        data = codec_of(kind).encode(replace(entity, revision=revision))
    except UnstorableError as error:
        raise _trouble("cannot be stored", kind, entity.id, error) from error
    item[DATA] = data
    item[REVISION] = data["M"].pop(REVISION)
    _check_limits(item, kind, entity.id)
    return item


def from_item(kind: type[E], item: Item) -> E:
    """The entity of a row.

    Raises:
        InternalError: the row lacks something or holds a value that this version does not know.
    """
    entries = {**item[DATA]["M"], REVISION: item[REVISION]}
    try:
        entity: E = codec_of(kind).decode({"M": entries})
    except UnstorableError as error:
        what = "cannot be read; a newer version may have written it"
        raise _trouble(what, kind, item[PK]["S"], error) from error
    return entity


def _check_limits(item: Item, kind: type[Entity], entity_id: str) -> None:
    size = size_bytes({"M": item})
    if size > ROW_LIMIT_BYTES:
        raise InternalError(
            f"{kind.__name__} {entity_id} takes {size} bytes; a row holds {ROW_LIMIT_BYTES}"
        )
    if depth({"M": item}) > DEPTH_LIMIT:
        raise InternalError(
            f"{kind.__name__} {entity_id} nests values deeper than {DEPTH_LIMIT} levels"
        )


def _trouble(
    what: str, kind: type[Entity], entity_id: str, error: UnstorableError
) -> InternalError:
    where = ".".join(error.path) or "the row"
    return InternalError(f"{kind.__name__} {entity_id} {what}: {where}: {error.problem}")
