"""Our account of what machines cost, beside the provider's own bill."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

from podferry.domain.billing import cost_microusd
from podferry.domain.machine import Machine
from podferry.services.giving_up import machine_cost
from tests.e2e.deployment import Deployment


def compare(deployment: Deployment, provider: str, machines: Sequence[Machine]) -> Iterable[str]:
    """Every machine that has ended, by its provider's own history."""
    state = deployment.control(provider, "GET", "/state")["instances"]
    bill = deployment.control(provider, "GET", "/bill")["instances"]
    costs = {row["id"]: row["cost_micros"] for row in bill}
    instances = {instance["id"]: instance for instance in state}
    for machine in machines:
        instance = instances.get(machine.provider_id or "")
        if machine.offer.provider == provider and instance is not None:
            yield from difference(machine, instance, costs.get(instance["id"], 0))


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
    return cost_microusd(machine.offer.billing, _price(machine), started, ended)


def _price(machine: Machine) -> int:
    return machine.price_microusd_per_hour or machine.offer.price_microusd_per_hour


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
    return Fraction(_price(machine)) * Fraction(idle + increment) / 3600
