"""What the control plane has written down about one account, read past its API."""

from functools import cached_property
from typing import TypeVar

import botocore.session

from local.aws.settings import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY
from local.stack import STATE_STACK
from podferry.adapters.aws.clients import AwsClients
from podferry.adapters.dynamo.store import DynamoStore
from podferry.domain.account import Account
from podferry.domain.entity import Entity
from podferry.domain.ledger import OPERATOR, Balance, LedgerEntry
from podferry.domain.machine import Machine
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.snapshot import Snapshot, expired_owner
from podferry.domain.volume import Volume
from podferry.ports.store import Store
from tests.chaos.world.stack import ChaosStack

E = TypeVar("E", bound=Entity)


def table_of(stack: ChaosStack) -> Store:
    """The deployment's table, with the rights of its root."""
    session = botocore.session.Session()
    session.set_credentials(ACCESS_KEY_ID, SECRET_ACCESS_KEY)
    session.set_config_variable("region", REGION)
    clients = AwsClients(session, stack.aws_endpoint)
    return DynamoStore(clients, stack.outputs[STATE_STACK]["TableName"])


class Rows:
    """The rows as they are when each kind is first asked for."""

    def __init__(self, store: Store, account_id: str) -> None:
        self.store = store
        self._account_id = account_id

    @cached_property
    def pods(self) -> list[Pod]:
        return self.owned(Pod, self._account_id)

    @cached_property
    def machines(self) -> list[Machine]:
        return [machine for pod in self.pods for machine in self.owned(Machine, pod.id)]

    @cached_property
    def account(self) -> Account:
        return self.store.get(Account, self._account_id)

    @cached_property
    def ledger(self) -> list[LedgerEntry]:
        return self.owned(LedgerEntry, self._account_id)

    @cached_property
    def ghosts(self) -> list[LedgerEntry]:
        """What was charged to nobody's account, whoever rented it."""
        return self.owned(LedgerEntry, OPERATOR)

    @cached_property
    def balance(self) -> int:
        stored = self.store.find(Balance, self._account_id)
        return 0 if stored is None else stored.microusd

    @cached_property
    def operations(self) -> list[Operation]:
        return [operation for pod in self.pods for operation in self.owned(Operation, pod.id)]

    def volume(self, pod: Pod) -> Volume:
        return self.store.get(Volume, pod.volume_id)

    def saves(self, pod: Pod) -> list[Snapshot]:
        """Every snapshot of the pod's volume, oldest first."""
        owners = (pod.volume_id, expired_owner(pod.volume_id))
        return sorted(
            (one for owner in owners for one in self.owned(Snapshot, owner)),
            key=lambda one: one.created_at,
        )

    def owned(self, kind: type[E], owner: str) -> list[E]:
        """All rows under an owner, oldest first."""
        found: list[E] = []
        cursor: str | None = None
        while True:
            page = self.store.list_owned(kind, owner, limit=100, cursor=cursor, newest_first=False)
            found += page.items
            cursor = page.cursor
            if cursor is None:
                return found
