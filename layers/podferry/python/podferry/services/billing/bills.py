"""What is read of the bill: the ledger, the balance, the usage and the statement of a month."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from podferry.domain.errors import FieldProblem, InvalidRequestError
from podferry.domain.ledger import OPERATOR, Balance, LedgerEntry, UsageDay, month_owner
from podferry.domain.metering import Meter
from podferry.domain.usage import LONGEST_DAYS
from podferry.ports.store import Page
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class Statement:
    """The bill of one month."""

    month: str
    is_final: bool
    """Whether nothing can be added to it any more: corrections stand in the month they are made."""
    days: tuple[UsageDay, ...]


@dataclass(frozen=True, slots=True)
class ReadBills:
    """`account_id` is `None` for the operator: then it is what belongs to no account."""

    records: Records

    def balance(self, account_id: str) -> Balance:
        """Read as one row; of an account without a bill it is zero."""
        stored = self.records.store.find(Balance, account_id)
        return stored or Balance(
            id=account_id, account_id=account_id, created_at=self.records.now()
        )

    def ledger(
        self, account_id: str | None, *, limit: int, cursor: str | None
    ) -> Page[LedgerEntry]:
        """The rows, newest first."""
        owner = account_id or OPERATOR
        return self.records.store.list_owned(LedgerEntry, owner, limit=limit, cursor=cursor)

    def usage(self, account_id: str | None, first: date, last: date) -> list[UsageDay]:
        """The days from `first` to `last`, both included.

        Raises:
            InvalidRequestError: that is no time, or more than a year.
        """
        if not 0 <= (last - first).days < LONGEST_DAYS:
            problem = f"is {first}, `to` is {last}"
            raise InvalidRequestError(
                f"from {first} to {last} are not 1 to {LONGEST_DAYS} days",
                fields=(FieldProblem("query from", problem),),
            )
        days = (day for month in _months(first, last) for day in self._month(account_id, month))
        return [day for day in days if first.isoformat() <= day.day <= last.isoformat()]

    def statement(self, account_id: str | None, month: str) -> Statement:
        """The month, like `2026-11`."""
        is_final = self._is_final(account_id, month)  # Before the days: what is final stays.
        return Statement(month, is_final, tuple(self._month(account_id, month)))

    def _month(self, account_id: str | None, month: str) -> Iterator[UsageDay]:
        return self.records.all_owned(UsageDay, month_owner(account_id or OPERATOR, month))

    def _is_final(self, account_id: str | None, month: str) -> bool:
        """The month is over, and every machine that stood in it is metered beyond it."""
        first = date.fromisoformat(f"{month}-01")
        next_month = (first + timedelta(days=31)).replace(day=1)
        end = datetime.combine(next_month, datetime.min.time(), UTC)
        open_meters = self.records.store.list_active(Meter)
        return self.records.now() >= end and all(
            (meter.metered_until or meter.created_at) >= end
            for meter in open_meters
            if meter.account_id == account_id
        )


def _months(first: date, last: date) -> Iterator[str]:
    for number in range(12 * first.year + first.month - 1, 12 * last.year + last.month):
        yield f"{number // 12:04}-{number % 12 + 1:02}"
