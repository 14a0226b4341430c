"""The oracle sees a ledger that is not what machines cost."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from podferry.adapters.memory.store import MemoryStore
from podferry.adapters.memory.surroundings import ManualClock, SeededRandomness
from podferry.domain.account import Account
from podferry.domain.ghost import Ghost
from podferry.domain.ledger import Balance, LedgerEntry
from podferry.domain.machine import Machine, MachineState
from podferry.domain.metering import ghost_entries, metered, new_meter
from podferry.ports.store import Create, Update
from podferry.services.billing.posting import posted
from podferry.services.records import Records
from tests.chaos.money import ledger_errors, strangers
from tests.chaos.world.rows import Rows
from tests.contract.entities import ACCOUNT, NOW, a_machine, a_pod

HOUR = timedelta(hours=1)


class Books:
    """One machine that has ended, metered, and what a simulator says of its instances."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.records = Records(self.store, ManualClock(), SeededRandomness())
        pod = a_pod(account_id=ACCOUNT)
        self.machine: Machine = a_machine(
            account_id=ACCOUNT,
            pod_id=pod.id,
            provider_id="7",
            state=MachineState.RELEASED,
            billing_started_at=NOW,
            ready_at=NOW,
            released_at=NOW + 1.2 * HOUR,
        )
        account = Account(id=ACCOUNT, account_id=ACCOUNT, created_at=NOW, name="a", chunk_key="")
        due = metered(new_meter(self.machine, NOW), self.machine, NOW + 2 * HOUR)
        rows = [Create(row) for row in (account, pod, self.machine)]
        self.store.commit(*rows, *posted(self.records, due.entries))

    def add(self, **changes: Any) -> None:
        (row,) = (r for r in Rows(self.store, ACCOUNT).ledger[:1])
        other = replace(row, id=f"{row.id[:-1]}z", **changes)
        self.store.commit(Create(other))

    @property
    def errors(self) -> list[str]:
        return list(ledger_errors(Rows(self.store, ACCOUNT)))

    def strangers(self, instance_id: str, cost: int, hours: float = 1) -> list[str]:
        instance = {"id": instance_id, "created_at": (NOW + hours * HOUR).timestamp()}
        rows = Rows(self.store, ACCOUNT)
        return list(strangers("fluence", [instance], {instance_id: cost}, rows))


@pytest.fixture
def books() -> Books:
    return Books()


def test_books_that_are_in_order(books: Books) -> None:
    assert books.errors == []
    assert books.strangers("7", 2_500_000) == []


@pytest.mark.parametrize("amount", [1, -1])
def test_one_micro_usd_too_many_or_too_few_is_seen(books: Books, amount: int) -> None:
    books.add(amount_microusd=amount)
    assert [error.split(":")[0] for error in books.errors[:1]] == [f"machine {books.machine.id}"]


def test_a_balance_that_is_not_the_sum_of_its_rows_is_seen(books: Books) -> None:
    balance = books.store.get(Balance, ACCOUNT)
    books.store.commit(Update(replace(balance, charges_microusd=balance.charges_microusd + 1)))
    (found,) = books.errors
    assert "add up to" in found


def test_a_row_that_is_missing_is_seen(books: Books) -> None:
    assert len(books.store.list_owned(LedgerEntry, ACCOUNT).items) == 1
    late = a_machine(
        account_id=ACCOUNT,
        pod_id=books.machine.pod_id,
        billing_started_at=NOW,
        state=MachineState.RELEASED,
        released_at=NOW + HOUR,
    )
    books.store.commit(Create(late))
    (found,) = books.errors
    assert found == f"machine {late.id}: its rows say 0, it cost 1250000"


def test_an_instance_that_cost_money_and_is_nobodys_needs_a_row(books: Books) -> None:
    (found,) = books.strangers("8", 5)
    assert "no row explains it" in found
    assert books.strangers("8", 0) == []
    assert books.strangers("8", 5, hours=-1) == []
    ghost = Ghost(
        id="ghost_fluence_8",
        account_id="",
        created_at=NOW,
        provider="fluence",
        provider_id="8",
        stamp="",
    )
    books.store.commit(*posted(books.records, ghost_entries(ghost, NOW + HOUR, NOW)))
    assert books.strangers("8", 5) == []
