"""Our account of what machines cost, beside the provider's own bill."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

from podferry.domain.billing import cost_microusd
from podferry.domain.ghost import ghost_id
from podferry.domain.ledger import Payer
from podferry.domain.machine import Machine
from podferry.services.giving_up import machine_cost
from tests.chaos.world.rows import Rows
from tests.e2e.deployment import Deployment


def compare(deployment: Deployment, provider: str, rows: Rows) -> Iterable[str]:
    """Every machine that has ended, by its provider's own history and by our ledger."""
    state = deployment.control(provider, "GET", "/state")["instances"]
    bill = deployment.control(provider, "GET", "/bill")["instances"]
    costs = {row["id"]: row["cost_micros"] for row in bill}
    instances = {instance["id"]: instance for instance in state}
    for machine in rows.machines:
        instance = instances.get(machine.provider_id or "")
        if machine.offer.provider == provider and instance is not None:
            yield from difference(machine, instance, costs.get(instance["id"], 0))
    yield from strangers(provider, state, costs, rows)


def ledger_errors(rows: Rows) -> Iterable[str]:
    """Machines whose rows are not what they cost, to the micro-USD, and a wrong balance."""
    charged: Counter[str] = Counter()
    for row in rows.ledger:
        if row.rented is not None:
            charged[row.rented.machine_id] += row.amount_microusd
    for machine in rows.machines:
        cost = machine_cost(machine)
        if charged[machine.id] != cost:
            yield f"machine {machine.id}: its rows say {charged[machine.id]}, it cost {cost}"
    owed = sum(row.amount_microusd for row in rows.ledger if row.payer == Payer.ACCOUNT)
    if owed != -rows.balance:
        yield f"the balance is {rows.balance}, its rows add up to {-owed}"


def strangers(
    provider: str, instances: Sequence[Mapping[str, Any]], costs: Mapping[str, int], rows: Rows
) -> Iterable[str]:
    """What cost money since the account was made and is no machine's is a ghost's, by a row."""
    known = {m.provider_id for m in rows.machines if m.offer.provider == provider}
    ghosts: Counter[str] = Counter()
    for row in rows.ghosts:
        if row.rented is not None:
            ghosts[row.rented.machine_id] += row.amount_microusd
    for instance in instances:
        cost, ghost = costs.get(instance["id"], 0), ghost_id(provider, instance["id"])
        is_new = instance["created_at"] >= rows.account.created_at.timestamp()
        if instance["id"] in known or not cost or not is_new:
            continue
        if ghost not in ghosts:
            yield f"{ghost}: its provider says {cost}, and no row explains it"


def difference(machine: Machine, instance: Mapping[str, Any], theirs: int) -> Iterable[str]:
    """What the rules do not explain between our cost and the provider's, `theirs`."""
    ours = machine_cost(machine)
    where = f"machine {machine.id}: we say {ours}, its provider says {theirs}"
    started = machine.billed_from
    if started is None or (machine.billing_started_at is None and machine.ready_at is None):
        return  # Nobody was shown that it ran, so it was never anybody's.
    phases = [(datetime.fromtimestamp(at, UTC), phase) for at, phase in instance["history"]]
    ended, last = phases[-1]
    released = machine.released_at
    if last != "gone" or released is None or released < ended:
        yield f"{where}: it is {last} since {ended}, and was released at {released}"
        return
    by_rule = _cost(machine, started, ended)
    # A provider that does not say when its bill began began it before the agent registered.
    least = 0 if machine.billing_started_at else by_rule - _cost(machine, phases[0][0], ended)
    if not least <= by_rule - theirs <= _spared(machine, phases):
        yield f"{where}; by its rule from {started} to {ended} it is {by_rule}"
    if ours != _cost(machine, started, released):
        yield f"{where}, which is not its rule from {started} to {released}"


def _cost(machine: Machine, started: datetime, ended: datetime) -> int:
    return cost_microusd(machine.offer.billing, machine.contract_microusd_per_hour, started, ended)


def _spared(machine: Machine, phases: Sequence[tuple[datetime, str]]) -> Fraction | int:
    """What a provider that charges by the second lets off: fractions, and GPUs that do not run.

    EC2 tells its launch time in whole seconds: up to one of them before there was anything.
    """
    increment = machine.offer.billing.increment_seconds
    if increment > 1:
        return 0
    began = min(machine.billing_started_at or phases[0][0], phases[0][0])
    idle = sum(
        (until - at).total_seconds()
        for (at, phase), (until, _) in pairwise([(began, "told"), *phases])
        if phase != "running"
    )
    return Fraction(machine.contract_microusd_per_hour) * Fraction(idle + increment) / 3600
