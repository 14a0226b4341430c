"""What the simulated EC2 shows: instances, types, and the price list."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from local.providers.instance import Instance, Phase
from local.providers.machine_types import MachineType

_STATES = {
    Phase.PROVISIONING: (0, "pending"),
    Phase.PULLING: (16, "running"),
    Phase.RUNNING: (16, "running"),
    Phase.EXITED: (16, "running"),
    Phase.STOPPED: (80, "stopped"),
    Phase.OFFLINE: (48, "terminated"),
    Phase.FAILED: (48, "terminated"),
    Phase.GONE: (48, "terminated"),
}
_FAILED = {
    "Code": "Server.InsufficientInstanceCapacity",
    "Message": "Server.InsufficientInstanceCapacity: Insufficient capacity to satisfy instance",
}
DISK_USD_PER_GB_MONTH = "0.0800000000"
ADDRESS_USD_PER_HOUR = Decimal("0.005")


def render(instance: Instance) -> dict[str, Any]:
    """One instance, as DescribeInstances and RunInstances show it."""
    code, name = _STATES[instance.phase]
    details = instance.details
    is_up = name == "running"
    shown = {
        "InstanceId": instance.id.rpartition(".")[2],
        "ImageId": instance.image,
        "InstanceType": details["type"],
        "ClientToken": details["token"],
        "State": {"Code": code, "Name": name},
        "Placement": {"AvailabilityZone": details["zone"], "Tenancy": "default"},
        "LaunchTime": datetime.fromtimestamp(details["launched_at"], UTC),
        "PrivateIpAddress": "10.0.1.9",
        "PublicIpAddress": "127.0.0.1" if is_up else None,
        "InstanceLifecycle": "spot" if details["is_spot"] else None,
        "StateReason": _reason(instance),
        "Tags": [{"Key": key, "Value": value} for key, value in details["tags"].items()],
    }
    return {key: value for key, value in shown.items() if value is not None}


def _reason(instance: Instance) -> dict[str, str] | None:
    if instance.phase is Phase.FAILED:
        return _FAILED
    reason = instance.details.get("reason")
    if reason is None or instance.phase in {Phase.PULLING, Phase.RUNNING}:
        return None
    return {"Code": reason, "Message": reason}


def render_type(machine: MachineType) -> dict[str, Any]:
    gpu = {
        "Name": machine.gpu_name,
        "Manufacturer": "NVIDIA",
        "Count": machine.gpu.count,
        "MemoryInfo": {"SizeInMiB": machine.gpu.memory_mib},
    }
    return {
        "InstanceType": machine.name,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": machine.vcpus},
        "MemoryInfo": {"SizeInMiB": machine.memory_mib},
        "GpuInfo": {"Gpus": [gpu]},
    }


def spot_prices(machines: Sequence[MachineType], now: float) -> Iterator[dict[str, Any]]:
    for machine in machines:
        for zone in machine.zones:
            yield {
                "AvailabilityZone": zone,
                "InstanceType": machine.name,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": f"{machine.spot_micros_per_hour / 1_000_000:.6f}",
                "Timestamp": datetime.fromtimestamp(now, UTC),
            }


def price_list(machines: Sequence[MachineType], filters: dict[str, str]) -> list[str]:
    """Products of the Price List API: each is JSON text inside JSON."""
    if filters.get("productFamily") == "Storage":
        attributes = {"volumeApiName": "gp3", "regionCode": filters["regionCode"]}
        return [_product(attributes, "GB-Mo", DISK_USD_PER_GB_MONTH)]
    return [
        _product(
            {"instanceType": machine.name, "regionCode": filters["regionCode"]},
            "Hrs",
            f"{machine.micros_per_hour / 1_000_000:.10f}",
        )
        for machine in machines
    ]


def _product(attributes: dict[str, str], unit: str, usd: str) -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    term = {"priceDimensions": {"SKU.TERM.RATE": dimension}}
    return json.dumps(
        {"product": {"attributes": attributes}, "terms": {"OnDemand": {"SKU.TERM": term}}}
    )
