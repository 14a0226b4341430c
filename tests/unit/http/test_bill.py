"""Usage, ledger, balance, statements and credits over HTTP."""

import csv
import io
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from podferry.domain.ghost import Ghost
from podferry.domain.ledger import LedgerEntry
from podferry.domain.machine import Machine, MachineState
from podferry.domain.metering import ghost_entries, new_meter
from podferry.domain.offer import BillingRule
from podferry.ports.store import Create, Update
from podferry.services.billing.posting import posted
from tests.contract.entities import a_machine
from tests.unit.http.deployment import OPERATOR, Deployment, User

HOUR = timedelta(hours=1)


def rent(user: User, **changes: Any) -> Machine:
    """A machine at 3.6 USD an hour, charged by the second, usable at once."""
    store, now = user.deployment.ports.store, user.deployment.ports.clock.now()
    values = {
        "account_id": user.account.id,
        "price_microusd_per_hour": 3_600_000,
        "billing_started_at": now,
        "ready_at": now,
    }
    machine = a_machine(**(values | changes))
    offer = replace(machine.offer, billing=BillingRule(increment_seconds=1))
    machine = replace(machine, offer=offer)
    store.commit(Create(machine), Create(new_meter(machine, now)))
    return machine


def run(user: User, hours: float) -> None:
    user.deployment.ports.clock.advance(hours * HOUR)
    user.deployment.use.run_meters.run()


def release(user: User, machine: Machine) -> None:
    store, now = user.deployment.ports.store, user.deployment.ports.clock.now()
    fresh = store.get(Machine, machine.id)
    store.commit(Update(replace(fresh, state=MachineState.RELEASED, released_at=now)))
    user.deployment.use.run_meters.run()


def credit(user: User, amount: int, **options: Any) -> Any:
    path = f"/v1/accounts/{user.account.id}/credits"
    body = {"amount_microusd": amount, "reason": "bank transfer 7"}
    return user.deployment.call("POST", path, body, token=OPERATOR, **options)


def test_a_credit_is_on_the_balance_and_in_the_ledger_with_its_reason(user: User) -> None:
    reply = credit(user, 5_000_000)
    assert reply.status == 201
    assert reply.json["balance"]["balance_microusd"] == 5_000_000
    (row,) = user.get("/v1/ledger").json["data"]
    assert row == reply.json["entry"]
    assert (row["line"], row["amount_microusd"]) == ("credit", -5_000_000)
    assert row["reason"] == "bank transfer 7"
    assert user.get("/v1/balance").json == {
        "account_id": user.account.id,
        "balance_microusd": 5_000_000,
        "credits_microusd": 5_000_000,
        "charges_microusd": 0,
    }


def test_an_adjustment_takes_away_and_may_make_the_balance_negative(user: User) -> None:
    credit(user, 1_000_000)
    assert credit(user, -3_000_000).json["entry"]["line"] == "adjustment"
    seen = user.deployment.call("GET", f"/v1/accounts/{user.account.id}/balance", token=OPERATOR)
    assert seen.json["balance_microusd"] == -2_000_000


def test_promise_10_a_credit_with_a_key_is_given_once(user: User) -> None:
    for _ in range(3):
        assert credit(user, 7, headers={"Idempotency-Key": "transfer-7"}).status == 201
    assert user.get("/v1/balance").json["balance_microusd"] == 7
    assert len(user.get("/v1/ledger").json["data"]) == 1


def test_only_the_operator_gives_credit(user: User) -> None:
    path = f"/v1/accounts/{user.account.id}/credits"
    body = {"amount_microusd": 1, "reason": "for me"}
    assert user.post(path, body).status == 403
    assert user.get(f"/v1/accounts/{user.account.id}/balance").status == 403


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"amount_microusd": 0, "reason": "x"}, "/amount_microusd"),
        ({"amount_microusd": 1.5, "reason": "x"}, "/amount_microusd"),
        ({"amount_microusd": 10**16, "reason": "x"}, "/amount_microusd"),
        ({"amount_microusd": 1}, "/reason"),
        ({"amount_microusd": 1, "reason": "x", "usd": 1}, "/usd"),
    ],
)
def test_a_credit_that_is_none_is_refused(user: User, body: Any, pointer: str) -> None:
    path = f"/v1/accounts/{user.account.id}/credits"
    reply = user.deployment.call("POST", path, body, token=OPERATOR)
    assert reply.status == 400
    assert [problem["where"] for problem in reply.json["errors"]] == [pointer]
    assert user.get("/v1/ledger").json["data"] == []


def test_a_credit_for_nobody_is_not_found(deployment: Deployment) -> None:
    path = "/v1/accounts/acct_01k0000000000000000000000a/credits"
    body = {"amount_microusd": 1, "reason": "x"}
    assert deployment.call("POST", path, body, token=OPERATOR).code == "not_found"


def test_the_balance_is_credits_less_what_machines_cost(user: User) -> None:
    credit(user, 10_000_000)
    rent(user)
    run(user, 2)
    assert user.get("/v1/balance").json["balance_microusd"] == 2_800_000
    run(user, 1)
    assert user.get("/v1/balance").json["balance_microusd"] == -800_000


def test_the_ledger_comes_in_pages_newest_first_and_is_complete(user: User) -> None:
    rent(user)
    for _ in range(7):
        run(user, 1)
    rows, cursor = [], None
    while True:
        query = {"limit": 3, **({"cursor": cursor} if cursor else {})}
        page = user.get("/v1/ledger", query=query).json
        rows += page["data"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(rows) == 7
    assert [row["starts_at"] for row in rows] == sorted(
        (r["starts_at"] for r in rows), reverse=True
    )
    assert sum(row["amount_microusd"] for row in rows) == 7 * 3_600_000


def test_nobody_sees_the_bill_of_another_account(user: User) -> None:
    rent(user)
    run(user, 1)
    other = user.deployment.an_account("other")
    assert other.get("/v1/ledger").json["data"] == []
    assert other.get("/v1/usage").json["total"]["seconds"] == 0
    assert other.get("/v1/balance").json["charges_microusd"] == 0
    operators = user.deployment.call("GET", "/v1/ledger", token=OPERATOR)
    assert operators.json["data"] == []


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("day", {"2026-11-30": 36_000_000, "2026-12-01": 7_200_000}),
        ("pod", {"pod_1": 21_600_000, "pod_2": 21_600_000}),
        ("provider", {"fluence": 43_200_000}),
        ("gpu", {"H100": 43_200_000}),
    ],
)
def test_usage_is_summed_by_day_pod_provider_and_gpu(
    user: User, by: str, keys: dict[str, int]
) -> None:
    clock = user.deployment.ports.clock
    clock.advance(clock.now().replace(hour=19, minute=0, second=0, microsecond=0) - clock.now())
    rent(user, pod_id="pod_1")
    rent(user, pod_id="pod_2")
    run(user, 6)
    query = {"by": by, "from": "2026-11-30", "to": "2026-12-01"}
    usage = user.get("/v1/usage", query=query).json
    assert {row["key"]: row["account_microusd"] for row in usage["data"]} == keys
    assert usage["total"]["seconds"] == 12 * 3600
    assert usage["total"]["account_microusd"] == 43_200_000
    one = user.get("/v1/usage", query=query | {"to": "2026-11-30"}).json
    assert one["total"]["account_microusd"] == 36_000_000


def test_usage_without_a_time_is_of_this_month(user: User) -> None:
    rent(user)
    run(user, 1)
    usage = user.get("/v1/usage").json
    assert (usage["from_day"], usage["to_day"]) == ("2026-11-01", "2026-11-30")
    assert usage["total"]["lines"] == {"run": 3_600_000}


@pytest.mark.parametrize(
    "query",
    [
        {"to": "0"},
        {"from": "1796083262"},
        {"from": "2026-12-01", "to": "2026-11-30"},
        {"from": "2024-11-30", "to": "2026-11-30"},
        {"from": "yesterday"},
        {"by": "weather"},
        {"since": "2026-11-30"},
    ],
)
def test_a_usage_that_makes_no_sense_is_refused(user: User, query: dict[str, str]) -> None:
    assert user.get("/v1/usage", query=query).code == "invalid_request"


def test_the_years_at_the_end_of_time_are_answered(user: User) -> None:
    assert user.get("/v1/usage", query={"from": "9999-12-01", "to": "9999-12-31"}).status == 200
    assert user.get("/v1/usage", query={"from": "0001-01-01", "to": "0001-01-02"}).status == 200


def test_a_statement_has_every_machine_and_credit_and_is_final_when_the_month_is_metered(
    user: User,
) -> None:
    credit(user, 9_000_000)
    machine = rent(user)
    run(user, 1)
    november = user.get("/v1/statements/2026-11").json
    assert not november["is_final"]
    assert november["credits_microusd"] == 9_000_000
    assert november["total"]["account_microusd"] == 3_600_000
    assert {row["line"] for row in november["data"]} == {"credit", "run"}
    user.deployment.ports.clock.advance(24 * HOUR)
    assert not user.get("/v1/statements/2026-11").json["is_final"]
    release(user, machine)
    final = user.get("/v1/statements/2026-11").json
    assert final["is_final"]
    december = user.get("/v1/statements/2026-12").json
    both = [statement["total"]["account_microusd"] for statement in (final, december)]
    assert sum(both) == user.get("/v1/balance").json["charges_microusd"] == 25 * 3_600_000
    assert not december["is_final"]


def test_a_statement_as_csv_has_the_rows_of_the_other(user: User) -> None:
    credit(user, 9_000_000)
    rent(user)
    run(user, 1)
    reply = user.get("/v1/statements/2026-11.csv")
    assert (reply.status, reply.content_type) == (200, "text/csv")
    rows = list(csv.DictReader(io.StringIO(reply.text)))
    data = user.get("/v1/statements/2026-11").json["data"]
    as_text = [{k: "" if v is None else str(v) for k, v in row.items()} for row in data]
    assert rows == as_text
    assert len(rows) == 2


@pytest.mark.parametrize(
    "month", ["2026-13", "2026-1", "1999-12", "2026-11.pdf", "2026-11.csv.csv"]
)
def test_a_month_that_is_none_is_not_found(user: User, month: str) -> None:
    assert user.get(f"/v1/statements/{month}").status == 404


def test_the_operator_sees_what_belongs_to_no_account(deployment: Deployment) -> None:
    now = deployment.ports.clock.now()
    ghost = Ghost(
        id="ghost_alpha_7",
        account_id="",
        created_at=now,
        provider="alpha",
        provider_id="7",
        stamp="pf-1",
        price_microusd_per_hour=3_600_000,
    )
    entries = ghost_entries(ghost, now + HOUR, now)
    deployment.ports.store.commit(*posted(deployment.use.records, entries))
    (row,) = deployment.call("GET", "/v1/ledger", token=OPERATOR).json["data"]
    assert (row["line"], row["payer"], row["machine_id"]) == ("ghost", "operator", "ghost_alpha_7")
    usage = deployment.call("GET", "/v1/usage", token=OPERATOR).json
    assert usage["total"]["operator_microusd"] == 3_600_000
    statement = deployment.call("GET", "/v1/statements/2026-11", token=OPERATOR).json
    assert statement["total"]["operator_microusd"] == 3_600_000
    assert deployment.call("GET", "/v1/balance", token=OPERATOR).status == 403


def test_the_same_rows_are_stored_once(user: User) -> None:
    rent(user)
    run(user, 1)
    user.deployment.use.run_meters.run()
    stored = user.deployment.ports.store.list_owned(LedgerEntry, user.account.id).items
    assert len(stored) == 1
