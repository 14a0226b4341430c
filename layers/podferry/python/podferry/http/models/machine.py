"""Machines, as users see them."""

from datetime import datetime

from pydantic import Field

from podferry.domain.billing import cost_microusd
from podferry.domain.machine import Machine, MachineState, Pulse, last_heard
from podferry.http.models.fields import Output


class PortView(Output):
    """Where a port of the pod can be reached."""

    internal: int
    host: str
    external: int


class MachineView(Output):
    """The rented box that runs the pod."""

    id: str
    provider: str
    provider_id: str | None = Field(description="The provider's own id, for its console.")
    state: MachineState
    epoch: int
    gpu_name: str | None
    gpu_count: int
    country: str | None
    price_microusd_per_hour: int
    cost_so_far_microusd: int = Field(description="By the provider's own billing rule.")
    ports: tuple[PortView, ...]
    registered_at: datetime | None
    ready_at: datetime | None
    heard_at: datetime | None = Field(description="When its agent last reported.")

    @classmethod
    def of(
        cls, machine: Machine | None, pulse: Pulse | None, now: datetime
    ) -> "MachineView | None":
        if machine is None:
            return None
        offer = machine.offer
        return cls(
            id=machine.id,
            provider=offer.provider,
            provider_id=machine.provider_id,
            state=machine.state,
            epoch=machine.epoch,
            gpu_name=offer.gpu_name,
            gpu_count=offer.gpu_count,
            country=offer.country,
            price_microusd_per_hour=_price(machine),
            cost_so_far_microusd=cost_so_far(machine, now),
            ports=tuple(
                PortView(internal=p.internal, host=p.host, external=p.external)
                for p in machine.ports
            ),
            registered_at=machine.registered_at,
            ready_at=machine.ready_at,
            # A word that comes too soon after the last is not stored: what made it ready is later.
            heard_at=None if pulse is None else last_heard(machine, pulse),
        )


def cost_so_far(machine: Machine, now: datetime) -> int:
    """What the provider has charged for the machine until now, or in all if it is gone."""
    started_at = machine.billed_from
    if started_at is None:
        return 0
    return cost_microusd(
        machine.offer.billing, _price(machine), started_at, machine.released_at or now
    )


def _price(machine: Machine) -> int:
    """The contract's price once it is known."""
    if machine.price_microusd_per_hour is None:
        return machine.offer.price_microusd_per_hour
    return machine.price_microusd_per_hour
