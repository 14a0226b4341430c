"""Keys and secrets of accounts in memory, for tests."""

from podferry.ports.key_vault import KeyRef


class MemoryKeyVault:
    """A `KeyVault`, or a `SecretVault`, whose content can be looked at."""

    def __init__(self) -> None:
        self.texts: dict[KeyRef, str] = {}

    def put(self, ref: KeyRef, text: str) -> None:
        self.texts[ref] = text

    def delete(self, name: str, account_id: str) -> None:
        for ref in [r for r in self.texts if (r.name, r.account_id) == (name, account_id)]:
            del self.texts[ref]

    def text(self, ref: KeyRef) -> str:
        """The text itself."""
        return self.texts[ref]
