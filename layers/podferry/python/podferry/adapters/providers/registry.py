"""The providers that Podferry knows: one line each, imported when first used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from podferry.domain.errors import ProviderRefusedError
from podferry.ports.gpu_cloud import GpuCloud

PROVIDERS = {
    "fluence": "podferry.adapters.providers.fluence:FluenceCloud",
    "vastai": "podferry.adapters.providers.vastai:VastCloud",
}


class ProviderAdapter(GpuCloud, Protocol):
    """What a line of the registry leads to, once it has a key."""

    min_interval_seconds: Mapping[str, float]
    """Shortest time between two calls of a method, by the method's name."""


class _AdapterClass(Protocol):
    def __call__(self, api_key: str, base_url: str | None = None) -> ProviderAdapter: ...


def adapter(name: str, api_key: str, base_url: str | None) -> ProviderAdapter:
    """The adapter of a provider; `base_url` is the provider's own unless given.

    Raises:
        ProviderRefusedError: no such provider.
    """
    if name not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise ProviderRefusedError(f"there is no provider {name!r}; known are {known}")
    module, _, class_name = PROVIDERS[name].partition(":")
    adapter_class = cast("_AdapterClass", getattr(import_module(module), class_name))
    return adapter_class(api_key, base_url)
