"""What Vast.ai says of an instance, in our words."""

import re
from datetime import UTC, datetime
from typing import Any

from podferry.adapters.providers.scrub import scrub
from podferry.adapters.providers.units import microusd
from podferry.adapters.providers.wire import LenientDecimal, WireModel
from podferry.domain.machine import PublicPort
from podferry.ports.gpu_cloud import MachineView, ViewState

_DEAD_WORDS = re.compile(
    r"OCI runtime create failed|Error response from daemon|pull access denied|manifest unknown"
    r"|failed to pull|no space left",
    re.IGNORECASE,
)
_STATES = {
    None: ViewState.PROVISIONING,
    "created": ViewState.STARTING,
    "loading": ViewState.STARTING,
    "running": ViewState.STARTING,
    "exited": ViewState.STOPPED,
    "stopped": ViewState.STOPPED,
}
_BEFORE_RUNNING = frozenset({None, "created", "loading"})


class Instance(WireModel):
    id: str
    label: str | None = None
    actual_status: str | None = None
    intended_status: str | None = None
    cur_state: str | None = None
    next_state: str | None = None
    status_msg: str | None = None
    is_bid: bool | None = None
    public_ipaddr: str | None = None
    ports: Any = None
    dph_total: LenientDecimal = None
    start_date: LenientDecimal = None


def view_of(instance: Instance) -> MachineView:
    state, reason = _state(instance)
    return MachineView(
        provider_id=instance.id,
        stamp=instance.label,
        state=state,
        raw_status=instance.actual_status or "null",
        reason=reason,
        price_microusd_per_hour=microusd(instance.dph_total) if instance.dph_total else None,
        ports=_ports(instance),
        billing_started_at=_billing_start(instance),
    )


def _state(instance: Instance) -> tuple[ViewState, str | None]:
    status = instance.actual_status
    if status == "offline":
        return ViewState.LOST, "the host is offline"
    if status in _BEFORE_RUNNING and _DEAD_WORDS.search(instance.status_msg or ""):
        return ViewState.FAILED, scrub(instance.status_msg or "")
    wishes = {instance.cur_state, instance.intended_status, instance.next_state}
    if wishes == {"stopped"}:
        if instance.is_bid:
            return ViewState.RECLAIMED, "outbid"
        return ViewState.STOPPED, "stopped by the provider"
    state = _STATES.get(status, ViewState.UNKNOWN)
    return state, scrub(instance.status_msg or "") if state is ViewState.STOPPED else None


def _ports(instance: Instance) -> tuple[PublicPort, ...]:
    """Docker's map, only there while running; the documented integer array says nothing."""
    host = (instance.public_ipaddr or "").strip()
    if not host or not isinstance(instance.ports, dict):
        return ()
    found: dict[int, int] = {}
    for name, bindings in instance.ports.items():
        internal, _, protocol = str(name).partition("/")
        for binding in bindings if isinstance(bindings, list) else ():
            external = str(binding.get("HostPort", "")) if isinstance(binding, dict) else ""
            if protocol in {"", "tcp"} and internal.isdecimal() and external.isdecimal():
                found.setdefault(int(internal), int(external))
    return tuple(
        PublicPort(internal=internal, host=host, external=external)
        for internal, external in sorted(found.items())
    )


def _billing_start(instance: Instance) -> datetime | None:
    """The rental's start once it ran: the GPU is free while loading, the disk is not."""
    if instance.start_date is None or instance.actual_status in _BEFORE_RUNNING:
        return None
    return datetime.fromtimestamp(float(instance.start_date), UTC)
