"""What a machine owes at a moment, row by row."""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podferry.domain.ghost import Ghost
from podferry.domain.ledger import LedgerEntry, Line, Payer
from podferry.domain.machine import Machine, MachineState
from podferry.domain.metering import EVERY, Meter, ghost_entries, metered, new_meter
from podferry.domain.offer import BillingRule
from tests.contract.entities import a_machine

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
HOURS = BillingRule(increment_seconds=3600, minimum_seconds=3600)
MINUTES = BillingRule(increment_seconds=60)
SECONDS = BillingRule(increment_seconds=1)
AT_LEAST_A_MINUTE = BillingRule(increment_seconds=1, minimum_seconds=60)


def billed(rule: BillingRule = SECONDS, **changes: Any) -> Machine:
    """A machine at 3.6 USD an hour, 1000 micro-USD a second, that was usable after a minute."""
    values = {
        "state": MachineState.READY,
        "price_microusd_per_hour": 3_600_000,
        "billing_started_at": START,
        "ready_at": START + MINUTE,
    }
    machine = a_machine(**(values | changes))
    return replace(machine, offer=replace(machine.offer, billing=rule))


def ended(machine: Machine, at: datetime, **changes: Any) -> Machine:
    return replace(machine, state=MachineState.RELEASED, released_at=at, **changes)


class Bill:
    """A machine's meter and its rows, with the machine changing as the test says."""

    def __init__(self, machine: Machine) -> None:
        self.meter: Meter = new_meter(machine, START)
        self.rows: list[LedgerEntry] = []

    def read(self, machine: Machine, now: datetime) -> list[LedgerEntry]:
        """One run of the meter; the rows that it adds."""
        due = metered(self.meter, machine, now)
        self.meter = replace(due.meter, revision=self.meter.revision + 1)
        self.rows += due.entries
        assert len({row.id for row in self.rows}) == len(self.rows)
        return list(due.entries)

    @property
    def total(self) -> int:
        return sum(row.amount_microusd for row in self.rows)

    @property
    def lines(self) -> dict[Line, int]:
        sums: defaultdict[Line, int] = defaultdict(int)
        for row in self.rows:
            sums[row.line] += row.amount_microusd
        return dict(sums)


def test_time_is_charged_while_the_machine_runs_not_at_its_end() -> None:
    machine = billed()
    bill = Bill(machine)
    for minutes in range(1, 61):
        bill.read(machine, START + minutes * MINUTE)
    owed = 3_600_000 - int(EVERY.total_seconds()) * 1000
    assert owed < bill.total <= 3_600_000
    assert bill.lines == {Line.BOOT: 60_000, Line.RUN: bill.total - 60_000}


def test_a_started_hour_is_charged_in_full_when_it_starts_and_once() -> None:
    machine = billed(HOURS)
    bill = Bill(machine)
    bill.read(machine, START + MINUTE)
    assert bill.total == 3_600_000
    bill.read(machine, START + 59 * MINUTE)
    assert bill.total == 3_600_000
    bill.read(machine, START + 61 * MINUTE)
    assert bill.total == 7_200_000
    bill.read(ended(machine, START + 119 * MINUTE), START + 2 * HOUR)
    assert bill.total == 7_200_000
    assert not bill.meter.is_active


@pytest.mark.parametrize(
    ("rule", "lived", "cost"),
    [
        (SECONDS, timedelta(seconds=10, microseconds=1), 11_000),
        (AT_LEAST_A_MINUTE, timedelta(seconds=10), 60_000),
        (AT_LEAST_A_MINUTE, timedelta(seconds=61), 61_000),
        (MINUTES, timedelta(seconds=61), 120_000),
        (HOURS, timedelta(seconds=1), 3_600_000),
        (HOURS, timedelta(), 3_600_000),
        (HOURS, -timedelta(seconds=5), 3_600_000),
    ],
)
def test_a_machine_that_ended_before_it_was_ever_metered_is_charged_by_its_rule(
    rule: BillingRule, lived: timedelta, cost: int
) -> None:
    bill = Bill(billed(rule))
    bill.read(ended(billed(rule), START + lived), START + HOUR)
    assert bill.total == cost
    assert not bill.meter.is_active


def test_a_machine_whose_bill_never_began_costs_nothing_and_is_closed() -> None:
    never = billed(billing_started_at=None, ready_at=None)
    bill = Bill(never)
    assert bill.read(never, START + HOUR) == []
    assert bill.meter.is_active
    assert bill.read(ended(never, START + HOUR), START + HOUR) == []
    assert not bill.meter.is_active


def test_a_run_that_is_repeated_late_or_by_a_slow_clock_adds_nothing() -> None:
    machine = billed()
    bill = Bill(machine)
    bill.read(machine, START + HOUR)
    assert bill.read(machine, START + HOUR) == []
    assert bill.read(machine, START + 30 * MINUTE) == []
    assert bill.total == 3_600_000


def test_two_runs_from_one_state_make_rows_of_the_same_names() -> None:
    machine, meter = billed(), new_meter(billed(), START)
    first = metered(meter, machine, START + HOUR).entries
    second = metered(meter, machine, START + HOUR + timedelta(seconds=7)).entries
    assert [row.id for row in first] == [row.id for row in second]


def test_rows_are_cut_at_midnight_and_stand_on_their_own_day() -> None:
    machine = billed()
    bill = Bill(machine)
    bill.read(machine, START + 36 * HOUR)
    assert [row.day.day for row in bill.rows] == [30, 30, 1]
    assert bill.rows[2].microseconds == 24 * 3_600_000_000
    assert bill.total == 36 * 3_600_000


def test_a_long_gap_is_made_up_in_several_transactions() -> None:
    machine = billed()
    over = ended(machine, START + 40 * 24 * HOUR)
    bill = Bill(machine)
    assert bill.read(over, START + 50 * 24 * HOUR)
    assert bill.meter.is_active
    while bill.meter.is_active:
        assert bill.read(over, START + 50 * 24 * HOUR)
    assert bill.total == 40 * 24 * 3_600_000


def test_promise_03_a_machine_that_is_being_given_up_costs_until_its_end_is_proven() -> None:
    leaving = billed(state=MachineState.TERMINATING, give_up_at=START + 10 * MINUTE)
    bill = Bill(leaving)
    bill.read(leaving, START + 20 * MINUTE)
    assert bill.lines == {Line.BOOT: 60_000, Line.RUN: 540_000, Line.ENDING: 600_000}
    bill.read(ended(leaving, START + 25 * MINUTE), START + HOUR)
    assert bill.lines[Line.ENDING] == 900_000


def test_a_machine_that_comes_back_goes_on_costing() -> None:
    machine = billed()
    bill = Bill(machine)
    bill.read(ended(machine, START + HOUR), START + HOUR)
    assert not bill.meter.is_active
    bill.read(machine, START + 2 * HOUR)
    assert bill.meter.is_active
    assert bill.total == 7_200_000


def test_case_b7_a_boot_that_failed_is_taken_from_the_account_to_a_line_of_its_own() -> None:
    booting = billed(state=MachineState.BOOTING, ready_at=None)
    bill = Bill(booting)
    bill.read(booting, START + 6 * MINUTE)
    assert bill.lines == {Line.BOOT: 360_000}
    failed = replace(booting, is_failed_boot=True, state=MachineState.TERMINATING)
    bill.read(ended(failed, START + 8 * MINUTE), START + 9 * MINUTE)
    assert bill.lines == {Line.BOOT: 0, Line.FAILED_BOOT: 480_000}
    assert sum(r.amount_microusd for r in bill.rows if r.payer == Payer.ACCOUNT) == 0
    assert sum(r.microseconds for r in bill.rows if r.line == Line.BOOT) == 0
    assert sum(r.microseconds for r in bill.rows) == 480_000_000


def test_a_boot_that_its_user_called_off_is_the_accounts() -> None:
    booting = billed(state=MachineState.BOOTING, ready_at=None)
    bill = Bill(booting)
    bill.read(ended(booting, START + 8 * MINUTE), START + 9 * MINUTE)
    assert [(row.line, row.payer) for row in bill.rows] == [(Line.BOOT, Payer.ACCOUNT)]


def test_case_p7_a_price_that_is_known_later_is_set_right_by_a_row_with_a_reason() -> None:
    offered = billed(price_microusd_per_hour=None)
    offered = replace(offered, offer=replace(offered.offer, price_microusd_per_hour=1_800_000))
    bill = Bill(offered)
    bill.read(offered, START + HOUR)
    before = list(bill.rows)
    bill.read(billed(id=offered.id), START + HOUR + MINUTE)
    assert bill.rows[: len(before)] == before
    (correction,) = bill.rows[len(before) :]
    assert correction.amount_microusd == 1_800_000
    assert correction.microseconds == 0
    assert "3600000 micro-USD an hour, not 1800000" in (correction.reason or "")


def test_a_bill_that_began_earlier_is_set_right_with_its_time() -> None:
    seen_late = billed(billing_started_at=None, registered_at=START + 10 * MINUTE)
    bill = Bill(seen_late)
    bill.read(seen_late, START + HOUR)
    (correction,) = bill.read(billed(id=seen_late.id), START + HOUR + MINUTE)
    assert correction.microseconds == 600_000_000
    assert bill.total == 3_600_000
    assert "began at another moment" in (correction.reason or "")


def test_an_end_before_what_was_metered_gives_money_back() -> None:
    machine = billed()
    bill = Bill(machine)
    bill.read(machine, START + HOUR)
    bill.read(ended(machine, START + 50 * MINUTE), START + HOUR)
    assert bill.total == 3_000_000
    assert bill.rows[-1].amount_microusd == -600_000
    assert not bill.meter.is_active


def test_a_correction_stands_on_the_bill_of_the_day_on_which_it_was_made() -> None:
    machine = billed()
    bill = Bill(machine)
    bill.read(machine, START + HOUR)
    later = START + 31 * 24 * HOUR
    bill.read(ended(machine, START + 50 * MINUTE), later)
    assert bill.rows[-1].day == later.date()


def test_a_machine_of_the_accounts_own_key_is_paid_at_its_provider() -> None:
    own = billed(key_of="acct_1")
    bill = Bill(own)
    bill.read(own, START + HOUR)
    assert {row.payer for row in bill.rows} == {Payer.OWN_KEY}
    failed = billed(key_of="acct_1", ready_at=None, is_failed_boot=True)
    bill = Bill(failed)
    bill.read(ended(failed, START + HOUR), START + HOUR)
    assert [(row.line, row.payer) for row in bill.rows] == [(Line.FAILED_BOOT, Payer.OWN_KEY)]


def a_ghost(**changes: Any) -> Ghost:
    ghost = Ghost(
        id="ghost_alpha_7",
        account_id="",
        created_at=START + 2 * MINUTE,
        provider="alpha",
        provider_id="7",
        stamp="pf-1",
        price_microusd_per_hour=3_600_000,
    )
    return replace(ghost, **changes)


def test_a_ghost_is_the_operators_from_the_start_of_its_bill() -> None:
    rows = ghost_entries(a_ghost(billing_started_at=START), START + 13 * HOUR, START)
    assert [row.amount_microusd for row in rows] == [12 * 3_600_000, 3_600_000]
    assert {(row.line, row.payer, row.owner) for row in rows} == {
        (Line.GHOST, Payer.OPERATOR, "operator")
    }


def test_a_ghost_that_stood_for_a_year_fits_into_one_transaction() -> None:
    rows = ghost_entries(a_ghost(billing_started_at=START), START + 8760 * HOUR, START)
    assert len(rows) <= 16
    assert sum(row.amount_microusd for row in rows) == 8760 * 3_600_000
    assert sum(row.microseconds for row in rows) == 8760 * 3_600_000_000


def test_a_ghost_of_whose_bill_nothing_is_known_shows_the_time_it_was_seen() -> None:
    (row,) = ghost_entries(a_ghost(price_microusd_per_hour=None), START + HOUR, START)
    assert (row.amount_microusd, row.microseconds) == (0, 58 * 60_000_000)
    (row,) = ghost_entries(a_ghost(key_of="acct_1"), START + HOUR, START)
    assert (row.payer, row.owner) == (Payer.OWN_KEY, "acct_1")


@given(
    rule=st.sampled_from([SECONDS, MINUTES, HOURS, AT_LEAST_A_MINUTE]),
    price=st.integers(1, 10**8),
    ready=st.none() | st.integers(0, 10**10),
    lived=st.integers(0, 10**11),
    looks=st.lists(st.integers(0, 10**11), max_size=12),
)
def test_however_a_life_is_cut_its_rows_add_up_to_the_providers_rule(
    rule: BillingRule, price: int, ready: int | None, lived: int, looks: list[int]
) -> None:
    at = None if ready is None else START + timedelta(microseconds=min(ready, lived))
    machine = billed(rule, price_microusd_per_hour=price, ready_at=at)
    end = START + timedelta(microseconds=lived)
    bill = Bill(machine)
    for look in looks:
        bill.read(machine, START + timedelta(microseconds=min(look, lived)))
    while bill.meter.is_active:
        bill.read(ended(machine, end), end)
    increment = rule.increment_seconds * 10**6
    charged = max(lived, rule.minimum_seconds * 10**6)
    charged += -charged % increment
    assert bill.total == -(-charged * price // 3_600_000_000)
    assert sum(row.microseconds for row in bill.rows) == lived
    assert all(row.amount_microusd >= 0 for row in bill.rows)
