"""What instances cost by the rules of real providers, worked out from their histories alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
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

    def __init__(self, charged: Sequence[Phase] = (Phase.RUNNING,)) -> None:
        self._charged = charged
        """Phases in which the GPU is charged."""

    def cost_micros(self, instance: Instance, now: float) -> int:
        running = instance.seconds_in(*self._charged, now=now)
        on_disk = instance.seconds_in(
            *(phase for phase in Phase if phase not in (Phase.OFFLINE, Phase.GONE)), now=now
        )
        disk_micros_per_hour = disk_price_micros(
            instance.details["disk"], instance.details["storage_cost"]
        )
        gpu = running * instance.micros_per_hour / _HOUR
        return round(gpu + on_disk * disk_micros_per_hour / _HOUR)


class PerSecondWhole:
    """The whole machine by the second from when it runs until it ends, and a minimum each time."""

    def __init__(self, minimum_seconds: float) -> None:
        self._minimum_seconds = minimum_seconds

    def cost_micros(self, instance: Instance, now: float) -> int:
        up = instance.seconds_in(Phase.PULLING, Phase.RUNNING, Phase.EXITED, now=now)
        if instance.entered_at(Phase.PULLING) is None:
            return 0
        return round(max(up, self._minimum_seconds) * instance.micros_per_hour / _HOUR)


class StartedMinutes:
    """The whole machine by the started minute from when it is up until it is terminated."""

    def cost_micros(self, instance: Instance, now: float) -> int:
        # A machine that is unhealthy or has shut itself down is not terminated.
        up = instance.seconds_in(Phase.PULLING, Phase.RUNNING, Phase.EXITED, Phase.OFFLINE, now=now)
        return math.ceil(up / 60) * instance.micros_per_hour // 60


def disk_price_micros(size_gb: float, dollars_per_gb_month: float) -> float:
    """The price of a disk per hour."""
    return size_gb * dollars_per_gb_month * 1_000_000 / _HOURS_PER_MONTH


def with_disk_and_address(
    micros_per_hour: int, disk_gib: int, usd_per_gib_month: Decimal, address_usd: Decimal
) -> int:
    """What a cloud charges for an hour of a VM with its boot disk and its public address.

    Of 730 hours a month, as EC2 and Google count it.
    """
    disk_usd = usd_per_gib_month * disk_gib / 730
    return micros_per_hour + math.ceil((disk_usd + address_usd) * 1_000_000)
