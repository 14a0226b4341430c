"""Where the texts of accounts' own provider keys lie."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyRef:
    """Names one text in the vault."""

    provider: str
    account_id: str
    version: str


class KeyVault(Protocol):
    """Takes texts in; only the adapters of the providers get them out again."""

    def put(self, ref: KeyRef, text: str) -> None:
        """Store the text under its version; the one before stays readable. Safe to repeat.

        Raises:
            ConflictError: the last key is still being deleted; try again in a moment.
        """

    def delete(self, provider: str, account_id: str) -> None:
        """Delete every version; nothing there is success."""
