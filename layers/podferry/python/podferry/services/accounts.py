"""Accounts, made by the operator; each begins with one key that may do everything in it."""

import base64
from dataclasses import dataclass

from podferry.domain.account import ACCOUNTS, USER_SCOPES, Account, ApiKey
from podferry.domain.errors import NotFoundError
from podferry.domain.ids import RANDOM_BITS, new_id
from podferry.ports.store import Create, Page, Store
from podferry.ports.surroundings import Clock, Randomness
from podferry.services.keys import new_key

CHUNK_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Accounts:
    """Make and find accounts."""

    store: Store
    clock: Clock
    randomness: Randomness

    def create(self, name: str) -> tuple[Account, ApiKey, str]:
        """Store a new account with its first key; the text of the key is kept nowhere."""
        now = self.clock.now()
        account_id = new_id(Account.PREFIX, now, self.randomness.bits(RANDOM_BITS))
        secret = self.randomness.bits(8 * CHUNK_KEY_BYTES).to_bytes(CHUNK_KEY_BYTES, "big")
        account = Account(
            id=account_id,
            account_id=account_id,
            created_at=now,
            name=name,
            chunk_key=base64.b64encode(secret).decode(),
        )
        key, token = new_key(account_id, "first key", USER_SCOPES, now, self.randomness)
        self.store.commit(Create(account), Create(key))
        return account, key, token

    def get(self, account_id: str) -> Account:
        """The account.

        Raises:
            NotFoundError: no such account.
        """
        account = self.store.find(Account, account_id)
        if account is None:
            raise NotFoundError(f"no account {account_id}")
        return account

    def list(self, *, limit: int, cursor: str | None) -> Page[Account]:
        """All accounts, newest first."""
        return self.store.list_owned(Account, ACCOUNTS, limit=limit, cursor=cursor)
