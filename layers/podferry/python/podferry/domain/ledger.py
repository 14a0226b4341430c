"""The bill: rows that are only ever added, and the sums that are kept with them.

Amounts are integer micro-USD and say what is owed: charges are positive, credits and refunds
negative. What was written is never edited; a later row with a `reason` sets it right.
"""

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import ClassVar

from podferry.domain.entity import Entity

OPERATOR = "operator"
"""What rows are listed under that belong to no account."""


class Line(StrEnum):
    """What was paid for."""

    BOOT = "boot"
    """From the start of a machine's bill until its pod ran on it."""
    RUN = "run"
    ENDING = "ending"
    """From the decision to give a machine up until its end was proven: it costs until then."""
    FAILED_BOOT = "failed_boot"
    """A machine that never became usable, through no fault of its user (case B7)."""
    GHOST = "ghost"
    """A machine that stood at a provider without belonging to a pod; also a twin of one."""
    CREDIT = "credit"
    ADJUSTMENT = "adjustment"
    """By the operator, to the account's disadvantage."""


class Payer(StrEnum):
    """Who carries an amount. Only what the account carries moves its balance."""

    ACCOUNT = "account"
    OPERATOR = "operator"
    OWN_KEY = "own_key"
    """The account, but at the provider itself: the machine was rented with its own key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rented:
    """What a charge is for."""

    machine_id: str
    """Of a ghost: its own id, which names the provider's."""
    pod_id: str | None
    provider: str
    gpu_name: str | None
    gpu_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(Entity):
    """One row. Rows are created, never updated or deleted."""

    PREFIX: ClassVar[str] = "led"

    line: Line
    payer: Payer
    amount_microusd: int
    starts_at: datetime
    ends_at: datetime
    """The interval that it is for; of a credit both are when it was given."""
    microseconds: int = 0
    """The interval's length; negative where a correction takes time away from its line."""
    rented: Rented | None = None
    """`None`: a credit or an adjustment."""
    price_microusd_per_hour: int | None = None
    reason: str | None = None
    """Why it corrects earlier rows, or what the operator wrote."""

    @property
    def owner(self) -> str:
        return self.account_id or OPERATOR

    @property
    def day(self) -> date:
        """The UTC day on whose bill it stands.

        A correction stands where it was made, so that the bill of a month that is over stays.
        """
        return self.starts_at.date() if self.reason is None else self.created_at.date()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDay(Entity):
    """All rows of one machine, or of none, with one line and one payer, on one UTC day.

    Kept in the transactions that add the rows, so that a month is read without adding them up.
    """

    PREFIX: ClassVar[str] = "use"

    day: str
    """Like `2026-11-30`."""
    line: Line
    payer: Payer
    rented: Rented | None
    microseconds: int = 0
    amount_microusd: int = 0

    @property
    def owner(self) -> str:
        return month_owner(self.account_id or OPERATOR, self.day[:7])


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance(Entity):
    """What an account was given and what it was charged. `id` is the account's."""

    PREFIX: ClassVar[str] = "bal"

    credits_microusd: int = 0
    """Credits less adjustments by the operator."""
    charges_microusd: int = 0
    """Of machines, with all corrections."""

    @property
    def microusd(self) -> int:
        return self.credits_microusd - self.charges_microusd


def month_owner(owner: str, month: str) -> str:
    """What the days of a month, like `2026-11`, are listed under."""
    return f"{owner}/{month}"


def usage_day_id(entry: LedgerEntry) -> str:
    """Of the day's sum that the row belongs to; days sort by time."""
    subject = entry.owner if entry.rented is None else entry.rented.machine_id
    return f"use_{entry.day:%Y%m%d}_{subject}_{entry.line}_{entry.payer}"
