"""What RunPod says of a pod, in our words."""

from datetime import UTC, datetime

from pydantic import Field

from podferry.adapters.providers.runpod_offers import CamelModel
from podferry.adapters.providers.units import microusd
from podferry.adapters.providers.wire import LenientDecimal
from podferry.domain.machine import PublicPort
from podferry.ports.gpu_cloud import MachineView, ViewState

# EXITED costs its disk and ERROR even its GPU until the pod is terminated.
_STATES = {
    "PROVISIONING": ViewState.PROVISIONING,
    "STARTING": ViewState.STARTING,
    "RUNNING": ViewState.STARTING,
    "EXITED": ViewState.STOPPED,
    "ERROR": ViewState.FAILED,
    "TERMINATED": ViewState.GONE,
}


class _Port(CamelModel):
    private: int
    public: int | None = None
    type: str = "tcp"
    ip: str | None = None


class _Runtime(CamelModel):
    ports: list[_Port] | None = None


class Pod(CamelModel):
    id: str
    name: str | None = None
    status: str = ""
    cost: LenientDecimal = None
    runtime: _Runtime | None = None
    started_at: datetime | None = None


class Pagination(CamelModel):
    has_next_page: bool = False
    next_cursor: str | None = None


class PodPage(CamelModel):
    """A page of pods; older versions of the API send all of them and no `pagination`."""

    pods: list[Pod]
    pagination: Pagination = Field(default_factory=Pagination)


def view_of(pod: Pod) -> MachineView:
    return MachineView(
        provider_id=pod.id,
        stamp=pod.name,
        state=_STATES.get(pod.status, ViewState.UNKNOWN),
        raw_status=pod.status or "null",
        price_microusd_per_hour=microusd(pod.cost) if pod.cost else None,
        ports=_ports(pod.runtime),
        billing_started_at=_as_utc(pod.started_at),
    )


def _ports(runtime: _Runtime | None) -> tuple[PublicPort, ...]:
    """Public numbers come some time after the container; proxied HTTP ports have none."""
    ports = (runtime.ports if runtime is not None else None) or []
    return tuple(
        PublicPort(internal=port.private, host=port.ip, external=port.public)
        for port in sorted(ports, key=lambda port: port.private)
        if port.type == "tcp" and port.ip and port.public
    )


def _as_utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
