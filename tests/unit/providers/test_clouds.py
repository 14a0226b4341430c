"""Which providers there are, by key."""

import pytest

from podferry.adapters.providers.clouds import KeyedClouds, ProviderKey, parse_provider_keys
from podferry.adapters.providers.registry import PROVIDERS, adapter
from podferry.domain.errors import ProviderRefusedError


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
    with pytest.raises(ProviderRefusedError, match="known are fluence, vastai"):
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
