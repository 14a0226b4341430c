"""Virtual machines and bare metal of the simulated Fluence: rented bare, opened by one SSH key."""

from __future__ import annotations

import uuid
from typing import Any

from local.boxes.door import Door
from local.providers.catalog import MachineOption, Plan
from local.providers.clock import to_rfc3339
from local.providers.fluence_schema import LaunchMachine
from local.providers.instance import Instance

ADDRESS = "127.0.0.1"
USER = "ubuntu"
_SSH = "22/tcp"


def collection_of(instance: Instance) -> str:
    """The list that it stands in; that of the containers has no name."""
    return str(instance.details.get("collection", ""))


def machine_from(launch: LaunchMachine, option: MachineOption) -> Instance:
    return Instance(
        # The ids of all kinds are in one place here, as nowhere in the API.
        id=f"{option.collection}.{uuid.uuid4()}",
        name=launch.name,
        offer=option.name,
        image=launch.os_image.replace(" ", "-").lower(),
        argv=[],
        environment={},
        ports=[_SSH],
        gpu=option.gpu,
        micros_per_hour=option.micros_per_hour,
        user_data="",
        is_real=option.collection == "baremetal",
        door=Door(user=USER, public_key=launch.ssh_key),
        details={
            "collection": option.collection,
            "location": option.location,
            "os_image": launch.os_image,
            "ssh_key": launch.ssh_key,
            "resources": {"supply": supply(option), "gpu_model": gpu_model(option)},
        },
    )


def render_machine(
    instance: Instance, status: str, billing: dict[str, Any], *, is_shown: bool
) -> dict[str, Any]:
    """What is shown of it; the address once `is_shown`. Here all share one, so it has a port."""
    port = instance.external_ports.get(_SSH)
    return {
        "id": instance.id.partition(".")[2],
        "name": instance.name,
        "status": status,
        "availability": instance.details["collection"].removesuffix("s"),
        "os_image": instance.details["os_image"],
        "ssh_connection": f"ssh -p {port} {USER}@{ADDRESS}" if is_shown else None,
        "ssh_key": instance.details["ssh_key"],
        "resources": instance.details["resources"],
        "location": instance.details["location"],
        "billing": billing,
        "network": {"domain": ADDRESS} if is_shown else None,
        "created_at": to_rfc3339(instance.created_at),
        "updated_at": to_rfc3339(instance.changed_at),
    }


def render_option(option: MachineOption) -> dict[str, Any]:
    price = option.micros_per_hour / 1_000_000
    shape = supply(option)
    return {
        "gpu_model": gpu_model(option),
        "minimum_price": price,
        "availability_by_number": [
            {
                "gpu_count": option.gpu.count,
                "minimum_price": price,
                "options_available_total": 1,
                "providers_available_total": 1,
                "data_center_available_total": 1,
                "locations": [option.location],
                "providers": [option.seller],
                "options": [
                    {
                        "id": option.id,
                        "location": option.location,
                        "provider": option.seller,
                        "vcpu": shape["vcpu"],
                        "memory": shape["memory"],
                        "storage": shape["storage"],
                        "deployment_type": option.collection.removesuffix("s").upper(),
                        "pricing": {"hour": price, "upfront_hours": 1, "currency": "USD"},
                        "nvlink": False,
                        "os_options": list(option.os_options),
                    }
                ],
            }
        ],
    }


def supply(entry: Plan | MachineOption) -> dict[str, Any]:
    return {
        "vcpu": {"count": entry.vcpus},
        "memory": {"count": entry.memory_gib, "units": "Gi"},
        "storage": {"count": entry.storage_gib, "units": "Gi"},
        "gpu_count": entry.gpu.count,
    }


def gpu_model(entry: Plan | MachineOption) -> dict[str, str]:
    return {
        "vendor": "nvidia",
        "model": entry.model,
        "vram": f"{round(entry.gpu.memory_mib / 1024)}Gi",
        "interface": entry.interface,
    }
