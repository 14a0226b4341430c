"""The providers this deployment has a key for, ready to use."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from podferry.adapters.providers.registry import PROVIDERS, adapter
from podferry.adapters.providers.wrapped import wrapped
from podferry.domain.errors import ProviderRefusedError
from podferry.ports.gpu_cloud import GpuCloud
from podferry.ports.surroundings import Signals

_LOGGER = logging.getLogger(__name__)


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
        places = sorted(
            {".".join(map(str, problem["loc"])) or "text" for problem in error.errors()}
        )
        raise ProviderRefusedError(
            "the provider keys must be JSON like "
            '{"vastai": {"api_key": "..."}}, "base_url" is optional; '
            f"wrong at: {', '.join(places)}"
        ) from None
    return {name: ProviderKey(key.api_key, key.base_url or None) for name, key in stored.items()}


class KeyedClouds:
    """`GpuClouds` from a set of keys that may change while we run."""

    def __init__(self, keys: Callable[[], Mapping[str, ProviderKey]], signals: Signals) -> None:
        self._keys = keys
        self._signals = signals
        self._lock = threading.Lock()
        self._made: dict[str, tuple[ProviderKey, GpuCloud]] = {}

    def names(self) -> list[str]:
        """See the port. A key for a provider we do not know is logged and left out."""
        keyed = set(self._keys())
        if unknown := sorted(keyed - set(PROVIDERS)):
            _LOGGER.warning("keys for unknown providers", extra={"providers": unknown})
        return sorted(keyed & set(PROVIDERS))

    def get(self, name: str) -> GpuCloud:
        """See the port. The same object as long as the key is the same, so that paces hold."""
        key = self._keys().get(name)
        if key is None:
            raise ProviderRefusedError(
                f"there is no key for provider {name!r}; add it to the provider keys"
            )
        with self._lock:
            made = self._made.get(name)
            if made is None or made[0] != key:
                made = (key, wrapped(adapter(name, key.api_key, key.base_url), self._signals))
                self._made[name] = made
        return made[1]
