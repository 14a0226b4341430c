"""Rows of the ledger together with the sums that they move: one transaction."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from podferry.domain.ledger import Balance, LedgerEntry, Line, Payer, UsageDay, usage_day_id
from podferry.ports.store import Change, Create, Update
from podferry.services.records import Records

_GIVEN = frozenset({Line.CREDIT, Line.ADJUSTMENT})


def posted(records: Records, entries: Sequence[LedgerEntry]) -> list[Change]:
    """The changes that add the rows, to be made anew in each try of `Records.apply`."""
    days: defaultdict[str, list[LedgerEntry]] = defaultdict(list)
    accounts: defaultdict[str, list[LedgerEntry]] = defaultdict(list)
    for entry in entries:
        days[usage_day_id(entry)].append(entry)
        if entry.payer == Payer.ACCOUNT:
            accounts[entry.account_id].append(entry)
    return [
        *(Create(entry) for entry in entries),
        *(_day(records, day_id, rows) for day_id, rows in days.items()),
        *(_balance(records, account_id, rows) for account_id, rows in accounts.items()),
    ]


def _day(records: Records, day_id: str, rows: Sequence[LedgerEntry]) -> Change:
    first = rows[0]
    stored = records.store.find(UsageDay, day_id)
    day = stored or UsageDay(
        id=day_id,
        account_id=first.account_id,
        created_at=records.now(),
        day=first.day.isoformat(),
        line=first.line,
        payer=first.payer,
        rented=first.rented,
    )
    after = replace(
        day,
        microseconds=day.microseconds + sum(row.microseconds for row in rows),
        amount_microusd=day.amount_microusd + _sum(rows),
    )
    return Create(after) if stored is None else Update(after)


def _balance(records: Records, account_id: str, rows: Sequence[LedgerEntry]) -> Change:
    stored = records.store.find(Balance, account_id)
    balance = stored or Balance(id=account_id, account_id=account_id, created_at=records.now())
    given = _sum(row for row in rows if row.line in _GIVEN)
    after = replace(
        balance,
        credits_microusd=balance.credits_microusd - given,
        charges_microusd=balance.charges_microusd + _sum(rows) - given,
    )
    return Create(after) if stored is None else Update(after)


def _sum(rows: Iterable[LedgerEntry]) -> int:
    return sum(row.amount_microusd for row in rows)
