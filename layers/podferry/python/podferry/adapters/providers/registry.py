"""The providers that Podferry knows: one line each, imported when first used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from podferry.domain.errors import ProviderRefusedError
from podferry.ports.gpu_cloud import CloudTraits, GpuCloud

PROVIDERS = {
    "ec2": "podferry.adapters.providers.ec2:Ec2Cloud",
    "fluence": "podferry.adapters.providers.fluence:FluenceCloud",
    "gce": "podferry.adapters.providers.gce:GceCloud",
    "lambda": "podferry.adapters.providers.lambda_cloud:LambdaCloud",
    "runpod": "podferry.adapters.providers.runpod:RunpodCloud",
    "vastai": "podferry.adapters.providers.vastai:VastCloud",
}

ROLE_KEYS = {"ec2": "podferry.adapters.providers.ec2_key:with_external_id"}
"""Providers at which an account may let us take on a role: how our external id gets into a key."""

EVERY_CALL = "every call"


class ProviderAdapter(GpuCloud, Protocol):
    """What a line of the registry leads to, once it has a key."""

    min_interval_seconds: Mapping[str, float]
    """Shortest time between two calls of a method, by the method's name.

    Under `EVERY_CALL` that between any two calls.
    """


class AdapterClass(Protocol):
    """What a line of the registry names. What a provider is stands in its class."""

    __doc__: str | None
    __module__: str
    name: str
    traits: CloudTraits
    min_interval_seconds: Mapping[str, float]

    def __call__(self, api_key: str, base_url: str | None = None) -> ProviderAdapter: ...


def adapter(name: str, api_key: str, base_url: str | None) -> ProviderAdapter:
    """The adapter of a provider; `base_url` is the provider's own unless given.

    Raises:
        ProviderRefusedError: no such provider.
    """
    return adapter_class(name)(api_key, base_url)


def completed_key(name: str, api_key: str, external_id: str) -> str:
    """An account's key as it is kept; `external_id` is of that account alone.

    Raises:
        KeyRefusedError: it names a role that is to be taken on for somebody else.
    """
    if name not in ROLE_KEYS:
        return api_key
    module, _, function = ROLE_KEYS[name].partition(":")
    return str(getattr(import_module(module), function)(api_key, external_id))


def adapter_class(name: str) -> AdapterClass:
    """The class that the registry names, without a key.

    Raises:
        ProviderRefusedError: no such provider.
    """
    if name not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise ProviderRefusedError(f"there is no provider {name!r}; known are {known}")
    module, _, class_name = PROVIDERS[name].partition(":")
    return cast("AdapterClass", getattr(import_module(module), class_name))
