"""What a machine costs: time by the provider's own rule, in integer micro-USD."""

from datetime import datetime, timedelta

from podferry.domain.machine import Machine
from podferry.domain.offer import BillingRule

_MICROSECONDS_PER_HOUR = 3_600_000_000


def billed_microseconds(rule: BillingRule, elapsed: timedelta) -> int:
    """The time charged for `elapsed`: started increments, at least the minimum."""
    increment = rule.increment_seconds * 1_000_000
    used = max(elapsed // timedelta(microseconds=1), rule.minimum_seconds * 1_000_000)
    return -(-used // increment) * increment


def cost_microusd(
    rule: BillingRule, price_microusd_per_hour: int, started_at: datetime, ended_at: datetime
) -> int:
    """What the provider charges from `started_at` to `ended_at`, rounded up to a micro-USD."""
    elapsed = max(ended_at - started_at, timedelta())
    charged = billed_microseconds(rule, elapsed)
    return -(-price_microusd_per_hour * charged // _MICROSECONDS_PER_HOUR)


def cost_so_far(machine: Machine, until: datetime) -> int:
    """What the provider has charged for the machine until then, or in all if it ended before."""
    started_at = machine.billed_from
    if started_at is None:
        return 0
    ended_at = until if machine.released_at is None else min(until, machine.released_at)
    price = machine.contract_microusd_per_hour
    return cost_microusd(machine.offer.billing, price, started_at, ended_at)
