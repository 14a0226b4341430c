"""API keys of an account: shown once, stored as a hash, revoked for good."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from podferry.domain.account import USER_SCOPES, ApiKey, Scope
from podferry.domain.errors import ConflictError, FieldProblem, ForbiddenError, InvalidRequestError
from podferry.domain.ids import RANDOM_BITS, new_id
from podferry.ports.store import Create, Page, Store, Update
from podferry.ports.surroundings import Clock, Randomness
from podferry.services.identify import KEY_PREFIX, token_digest
from podferry.services.records import Records


def new_key(
    account_id: str, name: str, scopes: Iterable[Scope], now: datetime, randomness: Randomness
) -> tuple[ApiKey, str]:
    """A key that is not stored yet, and its text, which is stored nowhere."""
    key_id = new_id(ApiKey.PREFIX, now, randomness.bits(RANDOM_BITS))
    token = f"{KEY_PREFIX}{key_id.partition('_')[2]}_{randomness.secret()}"
    key = ApiKey(
        id=key_id,
        account_id=account_id,
        created_at=now,
        name=name,
        scopes=tuple(sorted(set(scopes))),
        token_sha256=token_digest(token),
    )
    return key, token


@dataclass(frozen=True, slots=True)
class Keys:
    """Make, list and revoke the keys of an account."""

    store: Store
    clock: Clock
    randomness: Randomness

    def create(
        self,
        account_id: str,
        name: str,
        scopes: Iterable[Scope],
        granted_by: frozenset[Scope] = USER_SCOPES,
    ) -> tuple[ApiKey, str]:
        """Store a new key and return its text, once.

        `granted_by` are the rights of the key that asks: nobody can give more than they have.

        Raises:
            InvalidRequestError: no scope, or one that keys of accounts cannot have.
            ForbiddenError: a scope that the asking key does not have.
        """
        wanted = frozenset(scopes)
        if not wanted or not wanted <= USER_SCOPES:
            known = ", ".join(sorted(USER_SCOPES))
            problem = FieldProblem("/scopes", f"give at least one of: {known}")
            raise InvalidRequestError("a key needs scopes that exist", fields=(problem,))
        if missing := wanted - granted_by:
            raise ForbiddenError(f"your own key lacks {', '.join(sorted(missing))}")
        key, token = new_key(account_id, name, wanted, self.clock.now(), self.randomness)
        self.store.commit(Create(key))
        return key, token

    def list(self, account_id: str, *, limit: int, cursor: str | None) -> Page[ApiKey]:
        """The account's keys, newest first, revoked ones too."""
        return self.store.list_owned(ApiKey, account_id, limit=limit, cursor=cursor)

    def revoke(self, account_id: str, key_id: str) -> None:
        """End the key; doing it twice is one end.

        Raises:
            NotFoundError: no such key in the account.
            ConflictError: the key was changed at the same moment.
        """
        records = Records(self.store, self.clock, self.randomness)
        key = records.get_own(ApiKey, account_id, key_id)
        if key.revoked_at is not None:
            return
        try:
            self.store.commit(Update(replace(key, revoked_at=self.clock.now())))
        except ConflictError:
            # A key changes in one way only, so whoever was faster has revoked it.
            if records.get_own(ApiKey, account_id, key_id).revoked_at is None:
                raise
