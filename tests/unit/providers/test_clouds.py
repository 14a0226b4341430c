"""Which providers there are, by key."""

import pytest

from podferry.adapters.memory.key_vault import MemoryKeyVault
from podferry.adapters.providers.clouds import (
    CLOUDS_KEPT,
    KeyedClouds,
    ProviderKey,
    parse_provider_keys,
)
from podferry.adapters.providers.registry import PROVIDERS, adapter
from podferry.domain.errors import InternalError, ProviderRefusedError
from podferry.ports.key_vault import KeyRef


class NoSignals:
    def count(self, name: str, amount: int = 1) -> None:
        """Nobody looks."""


def clouds(keys: dict[str, ProviderKey]) -> KeyedClouds:
    return KeyedClouds(lambda: keys, NoSignals())


def test_names_are_the_keyed_providers_in_order() -> None:
    assert clouds({}).names() == []
    assert clouds({"vastai": ProviderKey("b"), "fluence": ProviderKey("a")}).names() == [
        "fluence",
        "vastai",
    ]


def test_a_key_of_an_unknown_provider_is_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = clouds({"nimbus": ProviderKey("a"), "vastai": ProviderKey("b")})

    assert found.names() == ["vastai"]
    assert caplog.records[0].__dict__["providers"] == ["nimbus"]
    with pytest.raises(ProviderRefusedError, match=f"known are {', '.join(sorted(PROVIDERS))}"):
        found.get("nimbus")


def test_a_provider_without_a_key_is_refused_with_what_to_do() -> None:
    with pytest.raises(ProviderRefusedError, match="add it to the provider keys"):
        clouds({}).get("fluence")


def test_a_cloud_is_kept_until_its_key_changes() -> None:
    keys = {"fluence": ProviderKey("a"), "vastai": ProviderKey("b")}
    found = clouds(keys)
    fluence, vastai = found.get("fluence"), found.get("vastai")

    keys["fluence"] = ProviderKey("renewed")

    assert found.get("vastai") is vastai
    assert found.get("fluence") is not fluence
    assert found.get("fluence") is found.get("fluence")


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_line_of_the_registry_leads_to_an_adapter_of_that_name(name: str) -> None:
    assert adapter(name, "key", None).name == name
    assert clouds({name: ProviderKey("key")}).get(name).name == name


def test_keys_are_read_from_the_secret() -> None:
    text = """{"fluence": {"api_key": "a"},
               "vastai": {"api_key": "b", "base_url": "http://127.0.0.1:1"}}"""

    assert parse_provider_keys(text) == {
        "fluence": ProviderKey("a", None),
        "vastai": ProviderKey("b", "http://127.0.0.1:1"),
    }
    assert parse_provider_keys("{}") == {}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("canary", "text"),
        ("[]", "text"),
        ('{"vastai": "canary"}', "vastai"),
        ('{"vastai": {"api_key": ""}}', "vastai.api_key"),
        ('{"vastai": {"api_key": "canary", "url": "x"}}', "vastai.url"),
    ],
)
def test_a_malformed_secret_is_explained_without_its_contents(text: str, place: str) -> None:
    with pytest.raises(ProviderRefusedError) as raised:
        parse_provider_keys(text)

    assert raised.value.detail.endswith(f"wrong at: {place}")
    assert "canary" not in raised.value.detail
    assert raised.value.__cause__ is None


def test_a_key_does_not_show_in_a_repr() -> None:
    assert "canary" not in repr(ProviderKey("canary"))


def own(version: str, account: str = "acct_1") -> KeyRef:
    return KeyRef("fluence", account, version)


def test_a_cloud_with_an_own_key_is_kept_until_its_text_changes() -> None:
    vault = MemoryKeyVault()
    vault.put(own("1"), "mine")
    vault.put(own("2"), "renewed")
    vault.put(own("1", "acct_2"), "mine")
    found = KeyedClouds(lambda: {"fluence": ProviderKey("a")}, NoSignals(), vault.text)
    first = found.get("fluence", own("1"))
    assert found.get("fluence", own("1")) is first
    assert found.get("fluence") is not first
    assert found.get("fluence", own("1", "acct_2")) is not first
    assert found.get("fluence", own("2")) is not first


def test_of_many_accounts_only_the_last_used_clouds_are_kept() -> None:
    found = KeyedClouds(dict, NoSignals(), lambda ref: ref.account_id)
    first = found.get("fluence", own("1", "acct_0"))
    for number in range(1, CLOUDS_KEPT):
        found.get("fluence", own("1", f"acct_{number}"))
    assert found.get("fluence", own("1", "acct_0")) is first
    found.get("fluence", own("1", "one too many"))
    assert found.get("fluence", own("1", "acct_0")) is first
    for number in range(CLOUDS_KEPT):
        found.get("fluence", own("1", f"acct_{number + 100}"))
    assert found.get("fluence", own("1", "acct_0")) is not first


def test_a_function_that_is_not_given_the_keys_of_accounts_says_so() -> None:
    with pytest.raises(InternalError, match="keys of accounts"):
        clouds({}).get("fluence", own("1"))
