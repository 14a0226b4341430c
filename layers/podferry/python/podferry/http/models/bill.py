"""The bill, as users see it: amounts in micro-USD, 1,000,000 for one dollar."""

import csv
import io
from collections.abc import Iterable
from datetime import date, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from podferry.domain.ledger import Balance, LedgerEntry, Line, Payer, Rented, UsageDay
from podferry.domain.usage import UsageBy, UsageSum, summed, usage_by
from podferry.http.models.fields import Input, Integer, Name, Output
from podferry.services.billing.bills import Statement

MOST_MICROUSD = 10**15
"""A billion dollars."""
_OWED = "What is owed: charges are positive, credits and refunds negative."


def _not_zero(amount: int) -> int:
    if amount == 0:
        raise ValueError("nothing is neither a credit nor an adjustment")
    return amount


class CreditBody(Input):
    """Money that the operator puts on an account, or takes from it."""

    amount_microusd: Annotated[Integer, AfterValidator(_not_zero)] = Field(
        ge=-MOST_MICROUSD,
        le=MOST_MICROUSD,
        json_schema_extra={"not": {"const": 0}},
        description="Added to the balance; negative takes away. Not zero.",
    )
    reason: Name = Field(description="Stands in the ledger.")


class EntryView(Output):
    """A row of the ledger. Rows are never changed; a later one with a `reason` corrects."""

    id: str
    line: Line
    payer: Payer = Field(
        description="`own_key`: paid at the provider, where the account's own key rented it. Only "
        "what `account` pays moves the balance."
    )
    amount_microusd: int = Field(description=_OWED)
    starts_at: datetime
    ends_at: datetime
    seconds: float = Field(description="Negative where a correction takes time from its line.")
    pod_id: str | None
    machine_id: str | None
    provider: str | None
    gpu_name: str | None
    gpu_count: int | None
    price_microusd_per_hour: int | None
    reason: str | None
    created_at: datetime

    @classmethod
    def of(cls, entry: LedgerEntry) -> "EntryView":
        return cls(
            id=entry.id,
            line=entry.line,
            payer=entry.payer,
            amount_microusd=entry.amount_microusd,
            starts_at=entry.starts_at,
            ends_at=entry.ends_at,
            seconds=entry.microseconds / 1e6,
            **_subject(entry.rented),
            price_microusd_per_hour=entry.price_microusd_per_hour,
            reason=entry.reason,
            created_at=entry.created_at,
        )


class BalanceView(Output):
    """What an account has left."""

    account_id: str
    balance_microusd: int = Field(description="Credits less charges; negative is owed.")
    credits_microusd: int
    charges_microusd: int

    @classmethod
    def of(cls, balance: Balance) -> "BalanceView":
        return cls(
            account_id=balance.id,
            balance_microusd=balance.microusd,
            credits_microusd=balance.credits_microusd,
            charges_microusd=balance.charges_microusd,
        )


class CreditView(Output):
    """A credit that was given, and the balance that it left."""

    entry: EntryView
    balance: BalanceView


class SumView(Output):
    """Time and money of a day, a pod, a provider, a GPU, or of all."""

    key: str | None = Field(description="The day, pod, provider or GPU; `null` where it has none.")
    seconds: float
    account_microusd: int = Field(description="Charged to the balance.")
    operator_microusd: int = Field(description="Carried by the operator, such as failed boots.")
    own_key_microusd: int = Field(description="Paid at providers with the account's own keys.")
    lines: dict[Line, int] = Field(description="The same by what it was for, whoever pays.")

    @classmethod
    def of(cls, total: UsageSum) -> "SumView":
        return cls(
            key=total.key,
            seconds=total.microseconds / 1e6,
            account_microusd=total.by_payer.get(Payer.ACCOUNT, 0),
            operator_microusd=total.by_payer.get(Payer.OPERATOR, 0),
            own_key_microusd=total.by_payer.get(Payer.OWN_KEY, 0),
            lines=total.by_line,
        )


class UsageView(Output):
    """What machines took and cost between two days (UTC), both included."""

    from_day: date
    to_day: date
    by: UsageBy
    data: tuple[SumView, ...]
    total: SumView

    @classmethod
    def of(cls, days: list[UsageDay], first: date, last: date, by: UsageBy) -> "UsageView":
        used = [day for day in days if day.rented is not None]
        return cls(
            from_day=first,
            to_day=last,
            by=by,
            data=tuple(SumView.of(row) for row in usage_by(used, by)),
            total=SumView.of(summed(used)),
        )


class StatementRow(Output):
    """One machine, or the credits, on one UTC day."""

    day: date
    line: Line
    payer: Payer
    pod_id: str | None
    machine_id: str | None
    provider: str | None
    gpu_name: str | None
    gpu_count: int | None
    seconds: float
    amount_microusd: int = Field(description=_OWED)

    @classmethod
    def of(cls, day: UsageDay) -> "StatementRow":
        return cls(
            day=date.fromisoformat(day.day),
            line=day.line,
            payer=day.payer,
            **_subject(day.rented),
            seconds=day.microseconds / 1e6,
            amount_microusd=day.amount_microusd,
        )


class StatementView(Output):
    """The bill of a month (UTC)."""

    month: str
    is_final: bool = Field(description="The month is over and metered: nothing is added any more.")
    total: SumView = Field(description="Of the machines, without credits.")
    credits_microusd: int = Field(description="Credits less adjustments of the month.")
    data: tuple[StatementRow, ...]

    @classmethod
    def of(cls, statement: Statement) -> "StatementView":
        used = [day for day in statement.days if day.rented is not None]
        given = [day.amount_microusd for day in statement.days if day.rented is None]
        return cls(
            month=statement.month,
            is_final=statement.is_final,
            total=SumView.of(summed(used)),
            credits_microusd=-sum(given),
            data=_rows(statement.days),
        )


def statement_csv(statement: Statement) -> str:
    """The rows of a statement as RFC 4180 wants them; an empty field is what a row lacks."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(StatementRow.model_fields))
    writer.writeheader()
    writer.writerows(row.model_dump(mode="json") for row in _rows(statement.days))
    return text.getvalue()


def _subject(rented: Rented | None) -> dict[str, Any]:
    """The fields that say what a row is for; a credit has none."""
    names = ("pod_id", "machine_id", "provider", "gpu_name", "gpu_count")
    return {name: getattr(rented, name, None) for name in names}


def _rows(days: Iterable[UsageDay]) -> tuple[StatementRow, ...]:
    return tuple(StatementRow.of(day) for day in days)
