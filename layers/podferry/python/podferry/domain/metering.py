"""Which rows of the ledger a machine owes at a moment: time cut into intervals and lines.

The amounts of a machine's rows add up to what its provider's rule gives from the start of its bill
to the last metered moment, to the micro-USD: each row carries the difference of two totals, so
that started hours, minima and roundings are counted once, wherever the intervals are cut.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import ClassVar

from podferry.domain.billing import cost_microusd, cost_so_far
from podferry.domain.entity import NO_ACCOUNT, Entity
from podferry.domain.ghost import Ghost
from podferry.domain.ids import RANDOM_BITS, new_id
from podferry.domain.ledger import LedgerEntry, Line, Payer, Rented
from podferry.domain.machine import Machine

EVERY = timedelta(minutes=5)
"""Between two rows of a machine that goes on; what is not metered yet is at most this long."""
MOST_INTERVALS = 16
"""In one transaction, after a time without a meter; the next one goes on."""
BOOT_FAILED = "the machine never became usable: the time of its boot is not charged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter(Entity):
    """How far a machine is metered. `id` is the machine's, and it is written with its rows.

    A row of its own for the same reason as `Pulse`. It lives until the machine's end is proven and
    metered, and keeps the schedule on until then.
    """

    PREFIX: ClassVar[str] = "meter"

    metered_until: datetime | None = None
    charged_microusd: int = 0
    """The sum of its rows."""
    entries: int = 0
    """How many rows it has: the next one's number."""
    started_at: datetime | None = None
    price_microusd_per_hour: int | None = None
    """What the rows so far were made from."""
    is_moved: bool = False
    """Whether its boot was taken from the account's line."""
    closed_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        return self.closed_at is None


def new_meter(machine: Machine, now: datetime) -> Meter:
    """The meter of a machine of which nothing is metered."""
    return Meter(id=machine.id, account_id=machine.account_id, created_at=now)


def reopened(meter: Meter) -> Meter:
    """The meter of a machine that was proven gone and was not: it may end before it is read."""
    return replace(meter, closed_at=None)


@dataclass(frozen=True, slots=True)
class Metered:
    """A meter after its next rows; it may also have been closed without any."""

    meter: Meter
    entries: tuple[LedgerEntry, ...] = ()


def metered(meter: Meter, machine: Machine, now: datetime) -> Metered:
    """The rows that are due now, oldest first. The same meter and machine give the same ids."""
    until = machine.released_at or now
    if machine.billed_from is None:
        return Metered(meter if machine.is_active else replace(meter, closed_at=now))
    if machine.is_active and meter.metered_until is not None and until <= meter.metered_until:
        return Metered(meter)  # A run that is late, or by a clock that is behind.
    rows = _Rows(machine, meter, now)
    rows.correct(until)
    rows.move_failed_boot()
    if machine.is_active:
        rows.go_on(until)
        return Metered(rows.meter, tuple(rows.entries)) if rows.entries else Metered(meter)
    is_complete = rows.end(until)
    closed = replace(rows.meter, closed_at=now) if is_complete else rows.meter
    return Metered(closed, tuple(rows.entries))


def ghost_entries(ghost: Ghost, ended_at: datetime, now: datetime) -> list[LedgerEntry]:
    """The rows of a ghost that has ended: the operator's, or the key's whom it stood under."""
    rented = Rented(
        machine_id=ghost.id, pod_id=None, provider=ghost.provider, gpu_name=None, gpu_count=0
    )
    begin, price = min(ghost.billed_from, ended_at), ghost.price_microusd_per_hour
    rows, charged = [], 0
    # One transaction has to hold all of them.
    cuts = [*_cuts(begin, ended_at)[:-1][:MOST_INTERVALS], ended_at]
    for number, (start, end) in enumerate(pairwise(cuts)):
        total = 0 if price is None else cost_microusd(ghost.billing, price, begin, end)
        row = LedgerEntry(
            id=_entry_id(ghost.id, number, start),
            account_id=ghost.key_of or NO_ACCOUNT,
            created_at=now,
            line=Line.GHOST,
            payer=Payer.OPERATOR if ghost.key_of is None else Payer.OWN_KEY,
            amount_microusd=total - charged,
            starts_at=start,
            ends_at=end,
            microseconds=_microseconds(end - start),
            rented=rented,
            price_microusd_per_hour=price,
        )
        rows.append(row)
        charged = total
    return rows


class _Rows:
    """The rows of one machine while they are worked out, and its meter as they leave it."""

    def __init__(self, machine: Machine, meter: Meter, now: datetime) -> None:
        self.entries: list[LedgerEntry] = []
        self._machine, self._before, self._now = machine, meter, now
        self._started = machine.billed_from or now
        self.meter = replace(
            meter,
            closed_at=None,
            started_at=self._started,
            price_microusd_per_hour=machine.contract_microusd_per_hour,
        )

    def correct(self, until: datetime) -> None:
        """Set right by one row what was metered from another start, price or end."""
        before, done = self._before, self._before.metered_until
        if done is None or before.started_at is None:
            return
        end = min(done, until)
        owed = cost_so_far(self._machine, end) - before.charged_microusd
        time = (end - self._started) - (done - before.started_at)
        if owed or time:
            line = _line_at(self._machine, end, is_moved=before.is_moved)
            self._add(line, owed, (self._started, end), time, reason=_why(before, self.meter))
        self.meter = replace(self.meter, metered_until=end)

    def move_failed_boot(self) -> None:
        """While a machine boots nobody knows that it will never be usable."""
        if not self._machine.is_failed_boot or self.meter.is_moved:
            return
        self.meter = replace(self.meter, is_moved=True)
        done, amount = self.meter.metered_until, self.meter.charged_microusd
        if done is not None:
            span, time = (self._started, done), done - self._started
            self._add(Line.BOOT, -amount, span, -time, reason=BOOT_FAILED)
            self._add(Line.FAILED_BOOT, amount, span, time, reason=BOOT_FAILED)

    def go_on(self, until: datetime) -> None:
        """Up to a moment in the machine's life, if that is worth a row."""
        done = self.meter.metered_until
        is_paid = cost_so_far(self._machine, until) == self.meter.charged_microusd
        is_early = done is not None and until - done < EVERY
        if not (is_paid or is_early or until <= self._started):
            self._add_intervals(done or self._started, until)

    def end(self, until: datetime) -> bool:
        """Up to the machine's end; whether the rows have got there."""
        begin = self.meter.metered_until or self._started
        is_owed = cost_so_far(self._machine, until) != self.meter.charged_microusd
        if is_owed or begin < until:
            # A bill that began after what we saw as its end has its minimum all the same.
            self._add_intervals(begin, max(begin, until))
        return (self.meter.metered_until or until) >= until

    def _add_intervals(self, begin: datetime, until: datetime) -> None:
        machine = self._machine
        ending = machine.give_up_at if machine.holds_data else None
        cuts = _cuts(begin, until, machine.ready_at, ending)
        for start, end in pairwise(cuts[: MOST_INTERVALS + 1]):
            owed = cost_so_far(machine, end) - self.meter.charged_microusd
            line = _line_at(machine, end, is_moved=self.meter.is_moved)
            self._add(line, owed, (start, end), end - start)
            self.meter = replace(self.meter, metered_until=end)

    def _add(
        self,
        line: Line,
        amount: int,
        span: tuple[datetime, datetime],
        time: timedelta,
        *,
        reason: str | None = None,
    ) -> None:
        machine, meter = self._machine, self.meter
        row = LedgerEntry(
            id=_entry_id(machine.id, meter.entries, span[0] if reason is None else self._now),
            account_id=machine.account_id,
            created_at=self._now,
            line=line,
            payer=_payer(machine, line),
            amount_microusd=amount,
            starts_at=span[0],
            ends_at=span[1],
            microseconds=_microseconds(time),
            rented=_rented(machine),
            price_microusd_per_hour=machine.contract_microusd_per_hour,
            reason=reason,
        )
        self.entries.append(row)
        charged = meter.charged_microusd + amount
        self.meter = replace(meter, entries=meter.entries + 1, charged_microusd=charged)


def _rented(machine: Machine) -> Rented:
    return Rented(
        machine_id=machine.id,
        pod_id=machine.pod_id,
        provider=machine.offer.provider,
        gpu_name=machine.offer.gpu_name,
        gpu_count=machine.offer.gpu_count,
    )


def _payer(machine: Machine, line: Line) -> Payer:
    if machine.key_of is not None:
        return Payer.OWN_KEY
    return Payer.OPERATOR if line == Line.FAILED_BOOT else Payer.ACCOUNT


def _line_at(machine: Machine, end: datetime, *, is_moved: bool) -> Line:
    """The line of an interval that ends then and was cut where lines change."""
    if is_moved:
        return Line.FAILED_BOOT
    if machine.ready_at is None or end <= machine.ready_at:
        return Line.BOOT
    is_ending = machine.give_up_at is not None and end > machine.give_up_at
    return Line.ENDING if is_ending else Line.RUN


def _cuts(begin: datetime, end: datetime, *marks: datetime | None) -> list[datetime]:
    """Begin and end, with midnights (UTC) and those marks that lie in between."""
    inside = {mark for mark in (*marks, *_midnights(begin, end)) if mark and begin < mark < end}
    return [begin, *sorted(inside), end]


def _midnights(begin: datetime, end: datetime) -> Iterator[datetime]:
    day = begin.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    while day < end:
        yield day
        day += timedelta(days=1)


def _why(before: Meter, after: Meter) -> str:
    """What was known later."""
    if before.price_microusd_per_hour != after.price_microusd_per_hour:
        return (
            f"its contract says {after.price_microusd_per_hour} micro-USD an hour, "
            f"not {before.price_microusd_per_hour}"
        )
    if before.started_at != after.started_at:
        return "its provider says that its bill began at another moment"
    return "its end lies before what was metered"


def _entry_id(subject_id: str, number: int, at: datetime) -> str:
    """The same row has the same id, whoever writes it; ids sort by time.

    Rows that were made from one state of the meter collide, so that only one of them is stored.
    """
    digest = hashlib.sha256(f"{subject_id}/{number}".encode()).digest()
    return new_id(LedgerEntry.PREFIX, at, int.from_bytes(digest[: RANDOM_BITS // 8], "big"))


def _microseconds(time: timedelta) -> int:
    return time // timedelta(microseconds=1)
