"""What can be rented, and what a pod asks for."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    CONTAINER = "container"
    VM = "vm"
    BAREMETAL = "baremetal"


class Market(StrEnum):
    ON_DEMAND = "on_demand"
    SPOT = "spot"


class Channel(StrEnum):
    """How our boot script gets onto the machine."""

    ENTRYPOINT = "entrypoint"
    """It is the container's first process."""
    STARTUP_SCRIPT = "startup_script"
    CLOUD_INIT = "cloud_init"
    SSH = "ssh"
    """The provider runs nothing for us: somebody has to log in, see `ports/installer.py`. Such a
    machine is a virtual or a real one, never a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingRule:
    """How a provider turns time into money.

    Time is charged in started increments of `increment_seconds`, at least `minimum_seconds`.
    Fluence: (3600, 3600), every started hour in full. Vast.ai: (1, 0).
    """

    increment_seconds: int
    minimum_seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something that can be rented: a provider's own reference plus what it is and costs."""

    provider: str
    reference: dict[str, Any]
    """Opaque to us: what the adapter needs to rent exactly this."""
    host: str | None
    """The physical host where the provider names it, so that a bad one can be avoided."""
    kind: Kind
    market: Market
    gpu_name: str | None
    gpu_count: int
    vram_mib_per_gpu: int | None
    vcpus: float | None
    memory_mib: int | None
    disk_gib: int
    country: str | None
    region: str | None
    price_microusd_per_hour: int
    """The whole machine with the asked-for disk."""
    billing: BillingRule
    reliability: float | None = None
    cuda_max: str | None = None
    """Newest CUDA that the host's driver takes, like `12.8`, where the provider says it."""
    arch: str = "x86_64"
    channel: Channel = Channel.ENTRYPOINT
    can_cancel_starting: bool = True
    reclaim_notice_seconds: int | None = None

    @property
    def id(self) -> str:
        """A name for logs and replies: the provider and its reference."""
        parts = (f"{key}={value}" for key, value in sorted(self.reference.items()))
        return f"{self.provider}:{','.join(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a pod needs of a machine. `None` and empty mean: anything."""

    gpu_names: tuple[str, ...] = ()
    gpu_count: int = 1
    min_vram_gib: int | None = None
    min_vcpus: int | None = None
    min_memory_gib: int | None = None
    disk_gib: int = 20
    providers: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    max_price_microusd_per_hour: int | None = None
    markets: tuple[Market, ...] = (Market.ON_DEMAND,)
    """Spot machines cost less and are taken away when somebody pays more."""
    kinds: tuple[Kind, ...] = ()
    min_reliability: float | None = None
    """0 to 1, as far as providers publish it; others do not meet it."""
    min_cuda: str | None = None
    """Like `12.4`: the driver has to take programs that were built for it."""
    arch: str | None = None
    """`None` takes any; an environment needs the one that it was made on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFailure:
    """A host that failed a pod; it is not chosen again for an hour."""

    provider: str
    host: str
    at: datetime


@dataclass(frozen=True, slots=True)
class NearMiss:
    """An offer that would fit if the requirements named were loosened."""

    offer: Offer
    loosen: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Offers that fit, best first, and how many each requirement ruled out."""

    offers: tuple[Offer, ...]
    ruled_out: dict[str, int] = field(default_factory=dict)
    nearest: tuple[NearMiss, ...] = ()
    """What comes closest, if nothing fits."""
