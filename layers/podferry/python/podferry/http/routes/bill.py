"""The bill: usage, ledger, balance, statements; credits by the operator."""

import re
from datetime import date
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path, Query
from pydantic import BeforeValidator

from podferry.domain.account import Scope
from podferry.domain.usage import UsageBy
from podferry.http.answers import found, made
from podferry.http.call import CallNow
from podferry.http.models.bill import (
    BalanceView,
    CreditBody,
    CreditView,
    EntryView,
    StatementView,
    UsageView,
    statement_csv,
)
from podferry.http.models.page import PageView
from podferry.http.params import DEFAULT_LIMIT, AccountId, Cursor, Limit
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("bill")

CSV = "text/csv"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _as_written(value: object) -> object:
    """A number would pass as the seconds since 1970."""
    if isinstance(value, str) and not _DAY.fullmatch(value):
        raise ValueError("give a day like 2026-11-30")
    return value


Month = Annotated[str, Path(pattern=r"^20\d\d-(0[1-9]|1[0-2])$", description="Like `2026-11`.")]
Day = Annotated[date, BeforeValidator(_as_written)]
FirstDay = Annotated[
    Day | None, Query(alias="from", description="UTC; without it the first of the month of `to`.")
]
LastDay = Annotated[Day | None, Query(alias="to", description="UTC; without it today.")]
By = Annotated[UsageBy, Query(description="What one row is about.")]


@routes.operation(
    "POST",
    "/v1/accounts/<account_id>/credits",
    needs=Scope.ADMIN,
    answers={201: Answer(CreditView, "It is on the balance.", ("Idempotent-Replayed",))},
)
def give_credit(call: CallNow, account_id: AccountId, body: CreditBody) -> Response[CreditView]:
    """Put money on an account, or take some from it (operator only)."""
    entry = call.use.give_credit.give(account_id, body.amount_microusd, body.reason)
    balance = BalanceView.of(call.use.read_bills.balance(account_id))
    return made(CreditView(entry=EntryView.of(entry), balance=balance))


@routes.operation(
    "GET",
    "/v1/accounts/<account_id>/balance",
    needs=Scope.ADMIN,
    answers={200: Answer(BalanceView, "The balance.")},
)
def get_balance_of(call: CallNow, account_id: AccountId) -> Response[BalanceView]:
    """See what an account has left (operator only)."""
    call.use.accounts.get(account_id)
    return found(BalanceView.of(call.use.read_bills.balance(account_id)))


@routes.operation(
    "GET",
    "/v1/balance",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(BalanceView, "The balance.")},
)
def get_balance(call: CallNow) -> Response[BalanceView]:
    """See what the account has left.

    What running machines cost is charged every five minutes, and each started hour at its start
    where a provider charges hours in full.
    """
    return found(BalanceView.of(call.use.read_bills.balance(call.account_id)))


@routes.operation(
    "GET",
    "/v1/ledger",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(PageView[EntryView], "Newest first.")},
)
def list_ledger(
    call: CallNow, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[EntryView]]:
    """List the rows of the bill.

    With the operator's key: what belongs to no account, which are machines without a pod.
    """
    page = call.use.read_bills.ledger(call.principal.account_id, limit=limit, cursor=cursor)
    rows = tuple(EntryView.of(entry) for entry in page.items)
    return found(PageView[EntryView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/usage",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(UsageView, "At most 366 days.")},
)
def get_usage(
    call: CallNow, *, first: FirstDay = None, last: LastDay = None, by: By = UsageBy.DAY
) -> Response[UsageView]:
    """See time and cost of machines by day, pod, provider or GPU.

    With the operator's key: of machines that belong to no account.
    """
    to_day = last or call.now.date()
    from_day = first or to_day.replace(day=1)
    days = call.use.read_bills.usage(call.principal.account_id, from_day, to_day)
    return found(UsageView.of(days, from_day, to_day, by))


@routes.operation(
    "GET",
    "/v1/statements/<month>.csv",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(None, "RFC 4180, with a line of names.", media=CSV)},
)
def get_statement_csv(call: CallNow, month: Month) -> Response[str]:
    """Get the rows of a month's bill as CSV."""
    statement = call.use.read_bills.statement(call.principal.account_id, month)
    return Response(200, CSV, statement_csv(statement))


@routes.operation(
    "GET",
    "/v1/statements/<month>",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(StatementView, "The bill of the month.")},
)
def get_statement(call: CallNow, month: Month) -> Response[StatementView]:
    """Get the bill of a month (UTC); add `.csv` for CSV.

    With the operator's key: of what belongs to no account.
    """
    statement = call.use.read_bills.statement(call.principal.account_id, month)
    return found(StatementView.of(statement))
