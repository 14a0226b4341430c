"""A month of a thousand machines, metered at random: the bill is what an independent sum says."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any

import pytest

from podferry.adapters.memory.store import MemoryStore
from podferry.adapters.memory.surroundings import ManualClock, MemorySignals, SeededRandomness
from podferry.domain.ledger import Balance, LedgerEntry, Line, Payer, UsageDay, month_owner
from podferry.domain.machine import Machine, MachineState
from podferry.domain.metering import Meter, new_meter, reopened
from podferry.domain.offer import BillingRule
from podferry.ports.store import Create, Update
from podferry.services.billing.meter import RunMeters
from podferry.services.records import Records
from tests.contract.entities import a_machine

MACHINES = 1_000
MONTH = datetime(2026, 11, 1, tzinfo=UTC)
DAYS = 29
"""Nothing lives beyond the month."""
ACCOUNTS = tuple(f"acct_{number}" for number in range(5))
HOURS = BillingRule(increment_seconds=3600, minimum_seconds=3600)
MINUTES = BillingRule(increment_seconds=60)
SECONDS = BillingRule(increment_seconds=1)
AT_LEAST_A_MINUTE = BillingRule(increment_seconds=1, minimum_seconds=60)


def by_hand(rule: BillingRule, price: int, seconds: Fraction) -> int:
    """What a provider's price list says, worked out without our code."""
    if rule == HOURS:
        return max(1, ceil(seconds / 3600)) * price
    if rule == MINUTES:
        return ceil(Fraction(ceil(seconds / 60) * price, 60))
    least = 60 if rule == AT_LEAST_A_MINUTE else 0
    return ceil(Fraction(max(least, ceil(seconds)) * price, 3600))


@dataclass(frozen=True, slots=True)
class Life:
    """What truly happens to one machine."""

    machine_id: str
    account_id: str
    rule: BillingRule
    price: int
    born: datetime
    ended: datetime
    is_failed: bool
    has_own_key: bool

    @property
    def cost(self) -> int:
        micros = (self.ended - self.born) // timedelta(microseconds=1)
        return by_hand(self.rule, self.price, Fraction(micros, 10**6))


@dataclass
class Month:
    """Machines whose rows change as their lives go on, and meters that look when they like."""

    dice: random.Random
    store: MemoryStore = field(default_factory=MemoryStore)
    signals: MemorySignals = field(default_factory=MemorySignals)
    clock: ManualClock = field(default_factory=lambda: ManualClock(MONTH))
    lives: list[Life] = field(default_factory=list)
    happenings: list[tuple[datetime, int, Callable[[], None]]] = field(default_factory=list)

    def at(self, moment: datetime, act: Callable[[], None]) -> None:
        self.happenings.append((moment, len(self.happenings), act))

    def change(self, machine_id: str, **values: Any) -> None:
        machine = self.store.get(Machine, machine_id)
        self.store.commit(Update(replace(machine, **values)))

    def meter(self, behind: timedelta = timedelta()) -> None:
        clock = ManualClock(self.clock.now() - behind)
        RunMeters(Records(self.store, clock, SeededRandomness()), self.signals).run()

    def play(self) -> None:
        for moment, _, act in sorted(self.happenings, key=lambda each: each[:2]):
            self.clock.advance(moment - self.clock.now())
            act()

    def time(self, least: float, most: float) -> timedelta:
        """Between so many seconds; short ones are as likely as long ones."""
        return timedelta(microseconds=int(10**6 * least * (most / least) ** self.dice.random()))

    def add_life(self) -> None:
        dice = self.dice
        born = MONTH + timedelta(seconds=dice.uniform(0, (DAYS - 4) * 86400))
        machine = a_machine(
            account_id=dice.choice(ACCOUNTS), state=MachineState.BOOTING, created_at=born
        )
        rule = dice.choice([HOURS, MINUTES, SECONDS, AT_LEAST_A_MINUTE])
        life = Life(
            machine_id=machine.id,
            account_id=machine.account_id,
            rule=rule,
            price=dice.randint(1, 5_000_000),
            born=born,
            ended=born + self.time(0.5, 4 * 86400),
            is_failed=dice.random() < 0.1,
            has_own_key=dice.random() < 0.1,
        )
        self.lives.append(life)
        self._plan(life, machine)

    def _plan(self, life: Life, machine: Machine) -> None:
        """When what becomes known; some of it late, and wrong at first."""
        offer = replace(
            machine.offer,
            billing=life.rule,
            price_microusd_per_hour=life.price + self.dice.choice([0, 0, 77]),
        )
        key_of = life.account_id if life.has_own_key else None
        row = replace(machine, offer=offer, key_of=key_of)
        self.at(
            life.born, lambda: self.store.commit(Create(row), Create(new_meter(row, life.born)))
        )
        length = life.ended - life.born

        def later(share: float, **values: Any) -> None:
            self.at(life.born + share * length, lambda: self.change(life.machine_id, **values))

        first = life.born + 0.02 * length
        later(0.02, registered_at=first)
        later(self.dice.choice([0.01, 0.03, 0.5]), billing_started_at=life.born)
        later(self.dice.choice([0.01, 0.5]), price_microusd_per_hour=life.price)
        if not life.is_failed:
            later(0.04, ready_at=life.born + 0.04 * length, state=MachineState.READY)
        given_up = {"give_up_at": life.born + 0.95 * length, "state": MachineState.TERMINATING}
        later(0.95, **given_up, is_failed_boot=life.is_failed)
        if self.dice.random() < 0.1:
            # Its provider denied it, and then it was still there.
            later(0.97, state=MachineState.LOST, released_at=life.born + 0.97 * length)
            self.at(life.born + 0.985 * length, lambda: self._come_back(life.machine_id))
        self.at(
            life.ended,
            lambda: self.change(
                life.machine_id, state=MachineState.RELEASED, released_at=life.ended
            ),
        )

    def _come_back(self, machine_id: str) -> None:
        """As `NoteReturn` does it."""
        self.change(machine_id, state=MachineState.TERMINATING, released_at=None)
        self.store.commit(Update(reopened(self.store.get(Meter, machine_id))))

    def add_meters(self) -> None:
        """Seldom for days, often for hours, twice at once, and by clocks that are behind."""
        dice, moment = self.dice, MONTH
        while moment < MONTH + timedelta(days=DAYS + 1):
            moment += self.time(30, 2 * 86400)
            for _ in range(dice.choice([1, 1, 1, 2])):
                behind = self.time(1, 900) if dice.random() < 0.2 else timedelta()
                self.at(moment, lambda behind=behind: self.meter(behind))  # type: ignore[misc]


@pytest.fixture(scope="module", params=[1])
def month(request: pytest.FixtureRequest) -> Month:
    month = Month(random.Random(request.param))
    for _ in range(MACHINES):
        month.add_life()
    month.add_meters()
    month.play()
    while list(month.store.list_active(Meter)):
        month.meter()
    return month


def ledger(month: Month, account_id: str) -> list[LedgerEntry]:
    return list(month.store.list_owned(LedgerEntry, account_id, limit=10**6).items)


def test_the_rows_of_every_machine_add_up_to_its_providers_bill(month: Month) -> None:
    charged: Counter[str] = Counter()
    time: Counter[str] = Counter()
    for account_id in ACCOUNTS:
        for row in ledger(month, account_id):
            assert row.rented is not None
            charged[row.rented.machine_id] += row.amount_microusd
            time[row.rented.machine_id] += row.microseconds
    assert {life.machine_id: life.cost for life in month.lives} == {
        life.machine_id: charged[life.machine_id] for life in month.lives
    }
    for life in month.lives:
        assert time[life.machine_id] == (life.ended - life.born) // timedelta(microseconds=1)
    assert month.signals.counts.get("MeterFailed", 0) == 0


def test_balances_are_what_the_accounts_own_machines_cost(month: Month) -> None:
    for account_id in ACCOUNTS:
        owed = sum(
            life.cost
            for life in month.lives
            if life.account_id == account_id and not (life.is_failed or life.has_own_key)
        )
        assert month.store.get(Balance, account_id).microusd == -owed


def test_case_b7_failed_boots_are_all_on_their_own_line(month: Month) -> None:
    failed = sum(life.cost for life in month.lives if life.is_failed)
    rows = [row for account_id in ACCOUNTS for row in ledger(month, account_id)]
    assert sum(row.amount_microusd for row in rows if row.line == Line.FAILED_BOOT) == failed
    by_account = [row for row in rows if row.payer == Payer.ACCOUNT]
    of_failed = {life.machine_id for life in month.lives if life.is_failed}
    left = (r.amount_microusd for r in by_account if r.rented and r.rented.machine_id in of_failed)
    assert sum(left) == 0


def test_the_days_of_the_month_are_the_sums_of_the_rows(month: Month) -> None:
    for account_id in ACCOUNTS:
        kept: Counter[tuple[str, Line, Payer]] = Counter()
        owner = month_owner(account_id, "2026-11")
        for day in month.store.list_owned(UsageDay, owner, limit=10**6).items:
            kept[day.day, day.line, day.payer] += day.amount_microusd
        made: Counter[tuple[str, Line, Payer]] = Counter()
        for row in ledger(month, account_id):
            made[row.day.isoformat(), row.line, row.payer] += row.amount_microusd
        assert +kept == +made
        assert sum(kept.values()) == sum(made.values())
