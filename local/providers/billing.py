"""What instances cost by the rules of real providers, worked out from their histories alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from local.providers.instance import Instance, Phase

_HOUR = 3600.0
_HOURS_PER_MONTH = 720


class BillingRule(Protocol):
    """How one provider charges."""

    def cost_micros(self, instance: Instance, now: float) -> int: ...


class StartedHours:
    """Every hour that has begun since the instance became active is charged in full."""

    def hours(self, instance: Instance, now: float) -> int:
        active_at = instance.entered_at(Phase.PULLING)
        if active_at is None:
            return 0
        end = instance.changed_at if instance.phase is Phase.GONE else now
        return max(1, math.ceil((end - active_at) / _HOUR))

    def cost_micros(self, instance: Instance, now: float) -> int:
        return self.hours(instance, now) * instance.micros_per_hour

    def next_charge_at(self, instance: Instance, now: float) -> float | None:
        active_at = instance.entered_at(Phase.PULLING)
        if active_at is None or instance.phase is Phase.GONE:
            return None
        return active_at + self.hours(instance, now) * _HOUR

    def find_uncovered(
        self, instances: Sequence[Instance], deposit_micros: int, now: float
    ) -> tuple[Instance, float] | None:
        """Find the first charge that meets an empty balance: that instance ends at that moment.

        A first hour is always covered (launching asks for it), and one charge may take the balance
        below zero.
        """
        charges: list[tuple[float, int, Instance]] = []
        for instance in instances:
            active_at = instance.entered_at(Phase.PULLING)
            charges += [
                ((active_at or 0.0) + hour * _HOUR, hour, instance)
                for hour in range(self.hours(instance, now))
            ]
        balance = deposit_micros
        for time, hour, instance in sorted(charges, key=lambda charge: charge[:2]):
            if hour > 0 and balance <= 0 and instance.phase is not Phase.GONE:
                return instance, time
            balance -= instance.micros_per_hour
        return None


class PerSecond:
    """The GPU by the second while it runs, the disk until destroyed; nothing for a lost host."""

    def cost_micros(self, instance: Instance, now: float) -> int:
        running = instance.seconds_in(Phase.RUNNING, now=now)
        on_disk = instance.seconds_in(
            *(phase for phase in Phase if phase not in (Phase.OFFLINE, Phase.GONE)), now=now
        )
        disk_micros_per_hour = disk_price_micros(
            instance.details["disk"], instance.details["storage_cost"]
        )
        gpu = running * instance.micros_per_hour / _HOUR
        return round(gpu + on_disk * disk_micros_per_hour / _HOUR)


def disk_price_micros(size_gb: float, dollars_per_gb_month: float) -> float:
    """The price of a disk per hour."""
    return size_gb * dollars_per_gb_month * 1_000_000 / _HOURS_PER_MONTH
