"""Keys and indexes of the one table: the only place that knows what its columns are called.

    pk "<PREFIX>#<id>"   sk "#"                 the row
    owned_pk "<PREFIX>#<owner>"   owned_sk id   index `owned`: lists, in the order of ids
    active_pk "<PREFIX>"   active_sk id         index `active`: only rows that need looking after
    forget_at                                   epoch seconds after which DynamoDB may drop the row

The indexes are only read for keys: they may hold keys alone, so that a heartbeat, which moves none
of them, costs one write and not three.
"""

from podferry.adapters.dynamo.attributes import Attribute
from podferry.domain.entity import Entity
from podferry.domain.errors import InternalError

Item = dict[str, Attribute]

OWNED_INDEX = "owned"
ACTIVE_INDEX = "active"
TTL = "forget_at"

PK = "pk"
SK = "sk"
OWNED_PK = "owned_pk"
OWNED_SK = "owned_sk"
ACTIVE_PK = "active_pk"
ACTIVE_SK = "active_sk"
REVISION = "revision"
DATA = "data"
WRITE_ID = "write_id"
"""Random, new with each commit: tells a repeated request of ours from somebody else's write."""


def row_key(kind: type[Entity], entity_id: str) -> Item:
    return {PK: {"S": f"{_prefix(kind)}#{entity_id}"}, SK: {"S": "#"}}


def owned_partition(kind: type[Entity], owner: str) -> str:
    return f"{_prefix(kind)}#{owner}"


def active_partition(kind: type[Entity]) -> str:
    return _prefix(kind)


def owned_key(kind: type[Entity], owner: str, entity_id: str) -> Item:
    """Where the row stands in the index `owned`."""
    return {
        **row_key(kind, entity_id),
        OWNED_PK: {"S": owned_partition(kind, owner)},
        OWNED_SK: {"S": entity_id},
    }


def index_attributes(entity: Entity) -> Item:
    """Every key of the row, and when it may be forgotten."""
    kind = type(entity)
    item = owned_key(kind, entity.owner, entity.id)
    if entity.is_active:
        item[ACTIVE_PK] = {"S": active_partition(kind)}
        item[ACTIVE_SK] = {"S": entity.id}
    if entity.forget_at is not None:
        item[TTL] = {"N": str(int(entity.forget_at.timestamp()))}
    return item


def _prefix(kind: type[Entity]) -> str:
    if not kind.PREFIX:
        raise InternalError(f"{kind.__name__} has no PREFIX, so it cannot be stored")
    return kind.PREFIX
