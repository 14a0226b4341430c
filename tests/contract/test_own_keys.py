"""Accounts' own provider keys in Secrets Manager, as moto and the embedded AWS have it."""

from __future__ import annotations

import traceback
import uuid

import pytest

from podferry.adapters.aws.clients import AwsClients
from podferry.adapters.aws.own_keys import SecretsKeyVault, Shelf
from podferry.domain.errors import InternalError
from podferry.ports.key_vault import KeyRef
from tests.contract.embedded import unique

DEPLOYMENT = "0a0b0c0d"
HIDDEN = "hidden-value"


@pytest.fixture(params=["moto", "embedded"])
def clients(request: pytest.FixtureRequest) -> AwsClients:
    if request.param == "moto":
        found: AwsClients = request.getfixturevalue("moto_clients")
        return found
    return request.getfixturevalue("embedded").clients  # type: ignore[no-any-return]


@pytest.fixture
def vault(clients: AwsClients) -> SecretsKeyVault:
    return SecretsKeyVault(clients, DEPLOYMENT)


@pytest.fixture
def account() -> str:
    return unique("acct")


def ref(account: str, provider: str = "vastai") -> KeyRef:
    return KeyRef(provider, account, str(uuid.uuid4()))


def test_a_text_comes_out_as_it_went_in(vault: SecretsKeyVault, account: str) -> None:
    key = ref(account)
    vault.put(key, HIDDEN)
    vault.put(key, HIDDEN)
    assert vault.text(key) == HIDDEN


def test_a_version_keeps_its_text_when_a_new_one_comes(
    clients: AwsClients, vault: SecretsKeyVault, account: str
) -> None:
    old, new = ref(account), ref(account)
    vault.put(old, "old")
    vault.put(new, "new")
    fresh = SecretsKeyVault(clients, DEPLOYMENT)
    assert (fresh.text(old), fresh.text(new)) == ("old", "new")


def test_providers_and_accounts_have_secrets_of_their_own(
    clients: AwsClients, vault: SecretsKeyVault, account: str
) -> None:
    vault.put(ref(account), "a")
    other = ref(account, "fluence")
    vault.put(other, "b")
    vault.delete("vastai", account)
    assert SecretsKeyVault(clients, DEPLOYMENT).text(other) == "b"
    name = f"podferry/{DEPLOYMENT}/provider-keys/{account}/fluence"
    clients.secretsmanager.describe_secret(SecretId=name)


def test_a_deleted_key_cannot_be_read_and_may_be_deleted_again(
    clients: AwsClients, vault: SecretsKeyVault, account: str
) -> None:
    key = ref(account)
    vault.put(key, HIDDEN)
    vault.delete("vastai", account)
    vault.delete("vastai", account)
    with pytest.raises(InternalError, match="ResourceNotFoundException") as caught:
        SecretsKeyVault(clients, DEPLOYMENT).text(key)
    assert HIDDEN not in "".join(traceback.format_exception(caught.value))


def test_a_new_key_can_follow_a_deleted_one(vault: SecretsKeyVault, account: str) -> None:
    vault.put(ref(account), "old")
    vault.delete("vastai", account)
    key = ref(account)
    vault.put(key, "new")
    assert vault.text(key) == "new"


def test_secrets_lie_apart_from_provider_keys_of_the_same_name(
    clients: AwsClients, vault: SecretsKeyVault, account: str
) -> None:
    key = ref(account)
    vault.put(key, "a provider's")
    secrets = SecretsKeyVault(clients, DEPLOYMENT, Shelf.SECRETS)
    secrets.put(key, HIDDEN)
    vault.delete("vastai", account)
    assert SecretsKeyVault(clients, DEPLOYMENT, Shelf.SECRETS).text(key) == HIDDEN
    clients.secretsmanager.describe_secret(
        SecretId=f"podferry/{DEPLOYMENT}/secrets/{account}/vastai"
    )
