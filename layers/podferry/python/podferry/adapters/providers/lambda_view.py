"""What Lambda says of an instance, in our words."""

from podferry.adapters.providers.lambda_offers import MICROUSD_PER_CENT
from podferry.adapters.providers.wire import LenientDecimal, WireModel
from podferry.domain.machine import PublicPort
from podferry.ports.gpu_cloud import MachineView, ViewState

PORTS_TAG = "podferry-ports"
_STATES = {
    "booting": ViewState.PROVISIONING,
    "active": ViewState.STARTING,
    # Both go on costing until the instance is terminated.
    "unhealthy": ViewState.LOST,
    "preempted": ViewState.LOST,
    "terminating": ViewState.TERMINATING,
    "terminated": ViewState.GONE,
}


class _Tag(WireModel):
    key: str
    value: str = ""


class _PricedType(WireModel):
    price_cents_per_hour: LenientDecimal = None


class Instance(WireModel):
    id: str
    name: str | None = None
    status: str = ""
    ip: str | None = None
    instance_type: _PricedType | None = None
    tags: list[_Tag] | None = None


def ports_tag(ports: tuple[int, ...]) -> dict[str, str]:
    """Keeps the wanted ports with the instance: Lambda itself knows nothing of ports."""
    return {"key": PORTS_TAG, "value": "-".join(map(str, ports))}


def view_of(instance: Instance) -> MachineView:
    cents = instance.instance_type.price_cents_per_hour if instance.instance_type else None
    return MachineView(
        provider_id=instance.id,
        stamp=instance.name,
        state=_STATES.get(instance.status, ViewState.UNKNOWN),
        raw_status=instance.status or "null",
        price_microusd_per_hour=int(cents * MICROUSD_PER_CENT) if cents else None,
        ports=_ports(instance),
    )


def _ports(instance: Instance) -> tuple[PublicPort, ...]:
    """The instance has an address of its own, so ports keep their numbers; it may come late."""
    if not instance.ip or instance.status != "active":
        return ()
    wanted = next((tag.value for tag in instance.tags or () if tag.key == PORTS_TAG), "")
    return tuple(
        PublicPort(internal=int(port), host=instance.ip, external=int(port))
        for port in wanted.split("-")
        if port.isdecimal()
    )
