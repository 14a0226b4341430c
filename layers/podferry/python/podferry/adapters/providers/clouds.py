"""The providers, ready to use with the deployment's keys or with those of accounts."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from podferry.adapters.providers.registry import PROVIDERS, ROLE_KEYS, adapter, completed_key
from podferry.adapters.providers.scrub import wrong_places
from podferry.adapters.providers.wrapped import wrapped
from podferry.domain.errors import InternalError, ProviderRefusedError
from podferry.ports.gpu_cloud import GpuCloud
from podferry.ports.key_vault import KeyRef
from podferry.ports.surroundings import Signals

_LOGGER = logging.getLogger(__name__)

_Place = tuple[str, str | None]
"""A provider, and the account whose key it is; `None` is the deployment's."""
CLOUDS_KEPT = 64


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """How to reach one provider."""

    api_key: str = field(repr=False)
    base_url: str | None = None
    """`None` is the provider's own address."""


class _StoredKey(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    api_key: str = Field(min_length=1)
    base_url: str | None = None


def parse_provider_keys(text: str) -> dict[str, ProviderKey]:
    """The keys in the secret's text: `{"<provider>": {"api_key": ..., "base_url": ...}}`.

    Raises:
        ProviderRefusedError: the text is not of that form.
    """
    try:
        stored = TypeAdapter(dict[str, _StoredKey]).validate_json(text)
    except ValidationError as error:
        raise ProviderRefusedError(
            "the provider keys must be JSON like "
            '{"vastai": {"api_key": "..."}}, "base_url" is optional; '
            f"wrong at: {wrong_places(error)}"
        ) from None
    return {name: ProviderKey(key.api_key, key.base_url or None) for name, key in stored.items()}


class KeyedClouds:
    """`GpuClouds` from a set of keys that may change while we run."""

    def __init__(
        self,
        keys: Callable[[], Mapping[str, ProviderKey]],
        signals: Signals,
        own_key: Callable[[KeyRef], str] | None = None,
    ) -> None:
        """`keys` are the deployment's; `own_key` gives the text of a key of an account."""
        self._keys = keys
        self._own_key = own_key
        self._signals = signals
        self._lock = threading.Lock()
        self._made: OrderedDict[_Place, tuple[ProviderKey, GpuCloud]] = OrderedDict()

    def known(self) -> list[str]:
        """See the port."""
        return sorted(PROVIDERS)

    def names(self) -> list[str]:
        """See the port. A key for a provider we do not know is logged and left out."""
        keyed = set(self._keys())
        if unknown := sorted(keyed - set(PROVIDERS)):
            _LOGGER.warning("keys for unknown providers", extra={"providers": unknown})
        return sorted(keyed & set(PROVIDERS))

    def get(self, name: str, key: KeyRef | None = None) -> GpuCloud:
        """See the port. The same object as long as the key is the same, so that paces hold."""
        place = (name, None if key is None else key.account_id)
        used = self._deployments_key(name) if key is None else self._accounts_key(key)
        with self._lock:
            made = self._made.pop(place, None)
            if made is None or made[0] != used:
                made = (used, self._make(name, used))
            self._made[place] = made
            if len(self._made) > CLOUDS_KEPT:
                self._made.popitem(last=False)
        return made[1]

    def completed(self, name: str, api_key: str, external_id: str) -> str:
        """See the port."""
        return completed_key(name, api_key, external_id)

    def takes_roles(self, name: str) -> bool:
        """See the port."""
        return name in ROLE_KEYS

    def on_trial(self, name: str, api_key: str) -> GpuCloud:
        """See the port."""
        return self._make(name, ProviderKey(api_key, self._base_url(name)))

    def _deployments_key(self, name: str) -> ProviderKey:
        key = self._keys().get(name)
        if key is None:
            raise ProviderRefusedError(
                f"there is no key for provider {name!r}; add it to the provider keys"
            )
        return key

    def _accounts_key(self, key: KeyRef) -> ProviderKey:
        if self._own_key is None:
            raise InternalError("this function is not set up to read keys of accounts")
        return ProviderKey(self._own_key(key), self._base_url(key.name))

    def _base_url(self, name: str) -> str | None:
        """Where a provider is, only the operator says: else an account could name any host."""
        key = self._keys().get(name)
        return None if key is None else key.base_url

    def _make(self, name: str, key: ProviderKey) -> GpuCloud:
        return wrapped(adapter(name, key.api_key, key.base_url), self._signals)
