"""Machines, as users see them."""

from datetime import datetime

from pydantic import Field

from podferry.domain.billing import cost_so_far
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
            price_microusd_per_hour=machine.contract_microusd_per_hour,
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
