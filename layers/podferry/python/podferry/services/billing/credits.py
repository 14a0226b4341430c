"""Credits and adjustments, by the operator."""

from collections.abc import Sequence
from dataclasses import dataclass

from podferry.domain.account import Account
from podferry.domain.errors import NotFoundError
from podferry.domain.ledger import LedgerEntry, Line, Payer
from podferry.ports.store import Change
from podferry.services.billing.posting import posted
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class GiveCredit:
    """One row of the ledger; the balance moves with it."""

    records: Records

    def give(self, account_id: str, amount_microusd: int, reason: str) -> LedgerEntry:
        """Raise the balance, or lower it by a negative amount. NOT safe to call twice.

        Raises:
            NotFoundError: no such account.
            ConflictError: the balance kept moving.
        """
        if self.records.store.find(Account, account_id) is None:
            raise NotFoundError(f"no account {account_id}")
        now = self.records.now()
        entry = LedgerEntry(
            id=self.records.new_id(LedgerEntry),
            account_id=account_id,
            created_at=now,
            line=Line.CREDIT if amount_microusd > 0 else Line.ADJUSTMENT,
            payer=Payer.ACCOUNT,
            amount_microusd=-amount_microusd,
            starts_at=now,
            ends_at=now,
            reason=reason,
        )

        def plan() -> Sequence[Change]:
            return posted(self.records, [entry])

        self.records.apply(plan)
        return entry
