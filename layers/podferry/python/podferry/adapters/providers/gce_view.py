"""What Compute Engine says of instances and operations, in our words."""

from datetime import UTC, datetime

from pydantic import Field

from podferry.adapters.providers.gce_refusals import REASONS
from podferry.adapters.providers.scrub import scrub
from podferry.adapters.providers.wire import WireModel
from podferry.domain.errors import CloudError, ProviderRefusedError
from podferry.domain.machine import PublicPort
from podferry.ports.gpu_cloud import MachineView, ViewState

STAMP_LABEL = "podferry-stamp"
PORTS_KEY = "podferry-ports"

_STATES = {
    "PENDING": ViewState.PROVISIONING,
    "PROVISIONING": ViewState.PROVISIONING,
    "STAGING": ViewState.PROVISIONING,
    "RUNNING": ViewState.STARTING,
    "PENDING_STOP": ViewState.TERMINATING,
    "STOPPING": ViewState.TERMINATING,
    "SUSPENDING": ViewState.TERMINATING,
    "DEPROVISIONING": ViewState.TERMINATING,
    "TERMINATED": ViewState.STOPPED,
    "STOPPED": ViewState.STOPPED,
    "SUSPENDED": ViewState.STOPPED,
    "REPAIRING": ViewState.LOST,
}


class _OperationError(WireModel):
    code: str = ""
    message: str = ""


class _OperationErrors(WireModel):
    errors: list[_OperationError] = Field(default_factory=list)


class Operation(WireModel):
    """One operation; `DONE` says nothing of whether it went well."""

    name: str
    status: str = ""
    error: _OperationErrors | None = None

    def refusal(self) -> CloudError | None:
        """Why nothing was made; `None` while it goes on, and if it went well."""
        if self.error is None or not self.error.errors:
            return None
        first = self.error.errors[0]
        kind = REASONS.get(first.code, ProviderRefusedError)
        return kind(f"gce did not make the machine: {first.code}: {scrub(first.message)}")


class _AccessConfig(WireModel):
    nat_ip: str | None = Field(default=None, alias="natIP")


class _NetworkInterface(WireModel):
    access_configs: list[_AccessConfig] = Field(default_factory=list, alias="accessConfigs")


class _MetadataItem(WireModel):
    key: str
    value: str = ""


class _Metadata(WireModel):
    items: list[_MetadataItem] = Field(default_factory=list)


class Instance(WireModel):
    """One instance; its metadata holds secrets and is read for the ports only."""

    name: str
    zone: str = ""
    status: str = ""
    status_message: str | None = Field(default=None, alias="statusMessage")
    labels: dict[str, str] = Field(default_factory=dict)
    network_interfaces: list[_NetworkInterface] = Field(
        default_factory=list, alias="networkInterfaces"
    )
    metadata: _Metadata = Field(default_factory=_Metadata, repr=False)
    last_start: datetime | None = Field(default=None, alias="lastStartTimestamp")


def view_of(zone: str, instance: Instance) -> MachineView:
    """An instance that exists."""
    state = _STATES.get(instance.status, ViewState.UNKNOWN)
    is_up = state is ViewState.STARTING
    return MachineView(
        provider_id=f"{zone}.{instance.name}",
        stamp=instance.labels.get(STAMP_LABEL),
        state=state,
        raw_status=instance.status,
        reason=scrub(instance.status_message) if instance.status_message else None,
        ports=_ports(instance) if is_up else (),
        billing_started_at=_utc(instance.last_start) if is_up else None,
    )


def _ports(instance: Instance) -> tuple[PublicPort, ...]:
    """The pod has the VM's network: its ports are the VM's, as far as firewall rules allow."""
    hosts = [
        config.nat_ip
        for interface in instance.network_interfaces
        for config in interface.access_configs
        if config.nat_ip
    ]
    words = [item.value for item in instance.metadata.items if item.key == PORTS_KEY]
    numbers = [int(text) for text in " ".join(words).split() if text.isdecimal()]
    return tuple(
        PublicPort(internal=number, host=hosts[0], external=number) for number in numbers if hosts
    )


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
