"""Who is asking: what a token stands for once it has been checked."""

from dataclasses import dataclass
from enum import StrEnum

from podferry.domain.account import Scope


class PrincipalKind(StrEnum):
    OPERATOR = "operator"
    ACCOUNT = "account"
    MACHINE = "machine"
    BOOT = "boot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The holder of a good token. Which fields are set depends on `kind`.

    operator: none.  account: `account_id`, `key_id`.  machine, boot: `account_id`, `machine_id`.
    """

    kind: PrincipalKind
    account_id: str | None = None
    scopes: frozenset[Scope] = frozenset()
    key_id: str | None = None
    machine_id: str | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the right is among its scopes; `admin` stands for every scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes
