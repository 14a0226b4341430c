"""What our own machines taught us of a provider: boots, restores and losses, by kind and market.

Until something was measured these hold, all of them guesses of ours and named as such in
`docs/adr/0017-effective-price.md`: `FIRST_BOOT_SECONDS`, `FIRST_RESTORE_SECONDS`, and of losses
`PRIOR_LOSSES_PER_HOUR` with the weight of `PRIOR_HOURS` hours of service.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import ClassVar

from podferry.domain.entity import Entity
from podferry.domain.machine import Machine
from podferry.domain.offer import Kind, Market, Offer

MEASUREMENTS_KEPT = 20
FIRST_BOOT_SECONDS = {Kind.CONTAINER: 120, Kind.VM: 240, Kind.BAREMETAL: 900}
FIRST_RESTORE_SECONDS = 60
PRIOR_LOSSES_PER_HOUR = {Market.ON_DEMAND: 0.0005, Market.SPOT: 0.05}
PRIOR_HOURS = 100
LONGEST_BOOT_SECONDS = 3600
PATIENCE = 3
"""A boot may take this many times the longest one that was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience(Entity):
    """Measurements of all accounts' machines; `id` is made of provider, kind and market."""

    PREFIX: ClassVar[str] = "exp"

    provider: str
    kind: Kind
    market: Market
    boots: tuple[int, ...] = ()
    """Seconds from the create call to the agent's registration, the newest last."""
    restores: tuple[int, ...] = ()
    """Seconds from there until the pod ran."""
    served_seconds: int = 0
    losses: int = 0

    @property
    def is_active(self) -> bool:
        """All of them are read for every ranking."""
        return True

    def with_start(self, machine: Machine) -> "Experience":
        """With a machine that became ready."""
        asked, seen, ready = machine.requested_at, machine.registered_at, machine.ready_at
        if asked is None or seen is None or ready is None:
            return self
        boot, restore = int((seen - asked).total_seconds()), int((ready - seen).total_seconds())
        return replace(self, boots=_kept(self.boots, boot), restores=_kept(self.restores, restore))

    def with_service(self, machine: Machine) -> "Experience":
        """With the time for which a machine that is gone was a pod's."""
        if machine.ready_at is None or machine.released_at is None:
            return self
        served = int((machine.released_at - machine.ready_at).total_seconds())
        return replace(self, served_seconds=self.served_seconds + max(served, 0))

    def with_loss(self) -> "Experience":
        return replace(self, losses=self.losses + 1)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is to be expected of an offer."""

    boot_seconds: int
    restore_seconds: int
    losses_per_hour: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """For how long something is to be rented, and what is known of those who lend it."""

    planned_seconds: int = 3600
    known: Mapping[str, Experience] = field(default_factory=dict)
    """By id."""

    def of(self, offer: Offer) -> Expectation:
        """Measured where anything was measured, else the guesses of this module."""
        seen = self.known.get(experience_id(offer))
        boots, restores = (seen.boots, seen.restores) if seen else ((), ())
        prior = PRIOR_LOSSES_PER_HOUR[offer.market] * PRIOR_HOURS
        losses, served = (seen.losses, seen.served_seconds) if seen else (0, 0)
        return Expectation(
            boot_seconds=int(median(boots or [FIRST_BOOT_SECONDS[offer.kind]])),
            restore_seconds=int(median(restores or [FIRST_RESTORE_SECONDS])),
            losses_per_hour=(prior + losses) / (PRIOR_HOURS + served / 3600),
        )


def boot_deadline_seconds(default: int, seen: Experience | None) -> int:
    """How long a boot may take: the provider's default, or longer where boots were slow.

    Never shorter: an image that was pulled quickly yesterday says little of another one.
    """
    slowest = max(seen.boots, default=0) if seen else 0
    return max(default, min(PATIENCE * slowest, LONGEST_BOOT_SECONDS))


def experience_id(offer: Offer) -> str:
    """The one id for what is known of such offers."""
    return f"{Experience.PREFIX}_{offer.provider}_{offer.kind}_{offer.market}"


def _kept(measured: tuple[int, ...], seconds: int) -> tuple[int, ...]:
    return (*measured, max(seconds, 0))[-MEASUREMENTS_KEPT:]
