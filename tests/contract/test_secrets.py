"""The deployment's secrets: kept for a minute, clear when malformed, never shown."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from datetime import timedelta

import pytest

from podferry.adapters.aws.clients import AwsClients
from podferry.adapters.aws.provider_keys import SecretsProviderKeys
from podferry.adapters.aws.secrets import SecretsOperatorKey
from podferry.adapters.memory.surroundings import ManualClock
from podferry.adapters.providers.clouds import ProviderKey
from podferry.domain.errors import InternalError, ProviderRefusedError

HIDDEN = "hidden-value"


@dataclass
class Vault:
    clients: AwsClients
    clock: ManualClock
    arn: str

    def put(self, text: str) -> None:
        self.clients.secretsmanager.put_secret_value(SecretId=self.arn, SecretString=text)

    def operator_key(self) -> SecretsOperatorKey:
        return SecretsOperatorKey(self.clients, self.arn, self.clock)

    def provider_keys(self) -> SecretsProviderKeys:
        return SecretsProviderKeys(self.clients, self.arn, self.clock)


@pytest.fixture
def vault(moto_clients: AwsClients) -> Vault:
    made = moto_clients.secretsmanager.create_secret(Name="secret", SecretString="{}")
    return Vault(moto_clients, ManualClock(), made["ARN"])


def test_a_new_operator_key_counts_after_a_minute(vault: Vault) -> None:
    vault.put('{"prefix": "pf_admin", "key": "old"}')
    key = vault.operator_key()
    assert key.matches("pf_admin_old")
    vault.put('{"prefix": "pf_admin", "key": "new"}')

    vault.clock.advance(timedelta(seconds=59))
    assert key.matches("pf_admin_old")
    assert not key.matches("pf_admin_new")

    vault.clock.advance(timedelta(seconds=1))
    assert key.matches("pf_admin_new")
    assert not key.matches("pf_admin_old")


@pytest.mark.parametrize(
    "text",
    [
        HIDDEN,
        "{}",
        f'["{HIDDEN}"]',
        f'{{"key": "{HIDDEN}"}}',
        f'{{"prefix": "other", "key": "{HIDDEN}"}}',
        '{"prefix": "pf_admin", "key": ""}',
        '{"prefix": "pf_admin", "key": 7}',
        f'{{"prefix": "pf_admin", "key": "{HIDDEN}"',
    ],
)
def test_a_malformed_operator_key_lets_nobody_in_and_is_not_shown(vault: Vault, text: str) -> None:
    vault.put(text)

    with pytest.raises(InternalError, match=vault.arn) as caught:
        vault.operator_key().matches("pf_admin_")

    assert "pf_admin" in caught.value.detail
    assert HIDDEN not in "".join(traceback.format_exception(caught.value))


def test_provider_keys_are_read_and_a_new_one_counts_after_a_minute(vault: Vault) -> None:
    keys = vault.provider_keys()
    assert keys() == {}
    vault.put('{"vastai": {"api_key": "a"}, "fluence": {"api_key": "b", "base_url": "http://x"}}')
    assert keys() == {}

    vault.clock.advance(timedelta(minutes=1))

    assert keys() == {
        "vastai": ProviderKey(api_key="a"),
        "fluence": ProviderKey(api_key="b", base_url="http://x"),
    }


@pytest.mark.parametrize(
    "text",
    [
        HIDDEN,
        f'"{HIDDEN}"',
        f'{{"vastai": "{HIDDEN}"}}',
        f'{{"vastai": {{"key": "{HIDDEN}"}}}}',
        f'{{"vastai": {{"api_key": "{HIDDEN}", "x": 1}}}}',
        f'{{"vastai": {{"api_key": "{HIDDEN}"}}',
    ],
)
def test_malformed_provider_keys_are_a_clear_error_that_shows_nothing(
    vault: Vault, text: str
) -> None:
    vault.put(text)

    with pytest.raises(ProviderRefusedError, match=vault.arn) as caught:
        vault.provider_keys()()

    assert "api_key" in caught.value.detail
    assert HIDDEN not in "".join(traceback.format_exception(caught.value))


def test_a_missing_secret_is_named(moto_clients: AwsClients) -> None:
    keys = SecretsProviderKeys(moto_clients, "no-such-secret", ManualClock())

    with pytest.raises(InternalError, match=r"ResourceNotFoundException.*no-such-secret"):
        keys()
