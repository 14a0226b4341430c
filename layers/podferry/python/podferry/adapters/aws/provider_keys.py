"""The keys of the GPU providers, from the secret that the operator fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podferry.adapters.aws.secrets import KeptSecret
from podferry.adapters.providers.clouds import ProviderKey, parse_provider_keys
from podferry.domain.errors import ProviderRefusedError
from podferry.ports.surroundings import Clock

if TYPE_CHECKING:
    from podferry.adapters.aws.clients import AwsClients


class SecretsProviderKeys:
    """Every provider with its key, as `KeyedClouds` asks for them."""

    def __init__(self, clients: AwsClients, arn: str, clock: Clock) -> None:
        self._secret = KeptSecret(clients, arn, clock)
        self._parsed: tuple[str, dict[str, ProviderKey]] | None = None

    def __call__(self) -> dict[str, ProviderKey]:
        """The keys as they are, or were within the last minute.

        Raises:
            InternalError: AWS does not give the secret.
            ProviderRefusedError: its text has another form; names the secret, not its content.
        """
        text = self._secret.text()
        if self._parsed is None or self._parsed[0] != text:
            self._parsed = (text, self._parse(text))
        return self._parsed[1]

    def _parse(self, text: str) -> dict[str, ProviderKey]:
        try:
            return parse_provider_keys(text)
        except ProviderRefusedError as error:
            raise ProviderRefusedError(f"secret {self._secret.arn}: {error.detail}") from error
