"""What the simulated Compute Engine shows: instances, machine types, operations, errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from local.providers.clock import to_rfc3339
from local.providers.gce_account import PROJECT
from local.providers.instance import Instance, Phase
from local.providers.machine_types import MachineType
from local.providers.web import Response, json_response

_SELF = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}"
_STATUS = {
    Phase.PROVISIONING: "PROVISIONING",
    Phase.PULLING: "RUNNING",
    Phase.RUNNING: "RUNNING",
    Phase.EXITED: "TERMINATED",
    Phase.STOPPED: "TERMINATED",
    Phase.OFFLINE: "TERMINATED",
}


def error(status: int, reason: str, message: str) -> Response:
    errors = [{"reason": reason, "domain": "global", "message": message}]
    return json_response(status, {"error": {"code": status, "message": message, "errors": errors}})


def link(zone: str, name: str) -> str:
    return f"{_SELF}/zones/{zone}/instances/{name}"


def render(instance: Instance, status: str | None) -> dict[str, Any]:
    """One instance that exists; `status` in place of its own."""
    asked, zone = instance.details["asked"], instance.details["zone"]
    access = {"type": "ONE_TO_ONE_NAT", "name": "nat"}
    started_at = instance.entered_at(Phase.PULLING)
    if instance.phase in {Phase.PULLING, Phase.RUNNING}:
        access["natIP"] = "127.0.0.1"
    shown = {
        "kind": "compute#instance",
        "name": instance.name,
        "zone": f"{_SELF}/zones/{zone}",
        "machineType": f"{_SELF}/zones/{zone}/machineTypes/{instance.offer}",
        "status": status or _STATUS[instance.phase],
        "creationTimestamp": to_rfc3339(instance.created_at),
        "networkInterfaces": [{"networkIP": "10.128.0.9", "accessConfigs": [access]}],
        "scheduling": asked.get("scheduling", {}),
        "labels": asked.get("labels", {}),
        "metadata": asked.get("metadata", {}),
    }
    if started_at is not None:
        shown["lastStartTimestamp"] = to_rfc3339(started_at)
    return shown


def render_type(machine: MachineType, zone: str) -> dict[str, Any]:
    gpu = {
        "guestAcceleratorType": machine.gpu_name,
        "guestAcceleratorCount": machine.gpu.count,
    }
    return {
        "name": machine.name,
        "zone": zone,
        "guestCpus": machine.vcpus,
        "memoryMb": machine.memory_mib,
        "architecture": "X86_64",
        "accelerators": [gpu],
    }


def aggregated(
    resource: str, rows: Iterable[tuple[str, dict[str, Any]]], next_page: str | None
) -> dict[str, Any]:
    """A page of (zone, row): by zone, with Google's warning where a zone has none."""
    items: dict[str, Any] = {
        "zones/us-east1-b": {
            "warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results."}
        }
    }
    for zone, row in rows:
        items.setdefault(f"zones/{zone}", {resource: []})[resource].append(row)
    page = {"kind": f"compute#{resource}AggregatedList", "items": items}
    return page if next_page is None else page | {"nextPageToken": next_page}


def operation(
    name: str, kind: str, target: str, failure: tuple[str, str] | None = None, *, done: bool
) -> dict[str, Any]:
    """An operation; `failure` is a code and a message, and shows once it is done."""
    shown: dict[str, Any] = {
        "kind": "compute#operation",
        "name": name,
        "operationType": kind,
        "targetLink": target,
        "status": "DONE" if done else "RUNNING",
        "progress": 100 if done else 0,
    }
    if failure is not None and done:
        code, message = failure
        shown["httpErrorStatusCode"] = 503 if "POOL" in code else 403
        shown["error"] = {"errors": [{"code": code, "message": message}]}
    return shown
