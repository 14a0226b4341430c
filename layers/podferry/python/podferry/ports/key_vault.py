"""Where texts of accounts lie that no row may hold: provider keys and secrets."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyRef:
    """Names one text in a vault: of a provider's key, or of a secret."""

    name: str
    account_id: str
    version: str


class KeyVault(Protocol):
    """Takes texts in. Those of provider keys only the adapters of the providers get out again."""

    def put(self, ref: KeyRef, text: str) -> None:
        """Store the text under its version; the one before stays readable. Safe to repeat.

        Raises:
            ConflictError: the last one of that name is still being deleted; try again in a moment.
        """

    def delete(self, name: str, account_id: str) -> None:
        """Delete every version; nothing there is success."""


class SecretVault(KeyVault, Protocol):
    """The accounts' secrets, which a pod's machine is given."""

    def text(self, ref: KeyRef) -> str:
        """The text of that version.

        Raises:
            InternalError: it cannot be read.
        """
