import base64
from dataclasses import replace

import pytest

from podferry.domain.account import ApiKey, Scope
from podferry.domain.errors import ConflictError, ForbiddenError, InvalidRequestError, NotFoundError
from podferry.ports.store import Change, Update
from podferry.services.identify import token_digest
from tests.unit.services.support import World


def test_each_account_has_a_chunk_key_of_its_own() -> None:
    world = World()
    keys = {world.accounts.create(name)[0].chunk_key for name in "ab"}
    assert len(keys) == 2
    assert {len(base64.b64decode(key)) for key in keys} == {32}


def test_only_the_digest_of_a_key_is_stored() -> None:
    world = World()
    account, key, token = world.accounts.create("acme")
    assert world.store.get(ApiKey, key.id).token_sha256 == token_digest(token)
    assert token not in str(world.store.__dict__)
    assert world.accounts.get(account.id).name == "acme"


def test_an_account_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        World().accounts.get("acct_1")


def test_accounts_are_listed_in_pages() -> None:
    world = World()
    made = {world.accounts.create(name)[0].id for name in "abc"}
    first = world.accounts.list(limit=2, cursor=None)
    second = world.accounts.list(limit=2, cursor=first.cursor)
    assert {a.id for a in (*first.items, *second.items)} == made


@pytest.mark.parametrize("scopes", [[], [Scope.ADMIN], [Scope.PODS_READ, Scope.ADMIN]])
def test_a_key_has_scopes_of_an_account(scopes: list[Scope]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        World().keys.create("acct_1", "key", scopes)
    assert caught.value.fields[0].where == "/scopes"


def test_a_key_cannot_be_given_more_than_the_giver_has() -> None:
    with pytest.raises(ForbiddenError, match="pods:write"):
        World().keys.create(
            "acct_1", "key", [Scope.PODS_READ, Scope.PODS_WRITE], frozenset({Scope.PODS_READ})
        )


def test_scopes_that_are_named_twice_count_once() -> None:
    key, _ = World().keys.create("acct_1", "key", [Scope.PODS_READ, Scope.PODS_READ])
    assert key.scopes == (Scope.PODS_READ,)


def test_two_revocations_at_once_are_one() -> None:
    world = World()
    account, key, _ = world.accounts.create("acme")
    plain = world.store.commit

    def commit(*changes: Change) -> None:
        world.store.commit = plain  # type: ignore[method-assign]
        world.keys.revoke(account.id, key.id)
        plain(*changes)

    world.store.commit = commit  # type: ignore[method-assign]
    world.keys.revoke(account.id, key.id)
    assert world.store.get(ApiKey, key.id).revoked_at == world.clock.now()


def test_a_key_that_changes_otherwise_while_it_is_revoked_is_a_conflict() -> None:
    world = World()
    account, key, _ = world.accounts.create("acme")
    plain = world.store.commit

    def commit(*changes: Change) -> None:
        world.store.commit = plain  # type: ignore[method-assign]
        plain(Update(replace(world.store.get(ApiKey, key.id), name="renamed")))
        plain(*changes)

    world.store.commit = commit  # type: ignore[method-assign]
    with pytest.raises(ConflictError):
        world.keys.revoke(account.id, key.id)


def test_keys_of_another_account_are_not_found() -> None:
    world = World()
    _, key, _ = world.accounts.create("acme")
    with pytest.raises(NotFoundError):
        world.keys.revoke("acct_2", key.id)
