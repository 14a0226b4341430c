"""The body of Compute Engine's insert call."""

import re
from typing import Any

from podferry.adapters.providers.gce_key import GceOptions
from podferry.adapters.providers.gce_view import PORTS_KEY, STAMP_LABEL
from podferry.adapters.providers.vm_launch import user_data
from podferry.domain.errors import ProviderRefusedError
from podferry.domain.offer import Market
from podferry.ports.gpu_cloud import LaunchRequest

MAX_STARTUP_SCRIPT = 256 * 1024
IMAGE_GIB = 50
"""What the image takes of the disk, so that a pod gets all it asked for."""
DEFAULT_IMAGE = (
    "projects/deeplearning-platform-release/global/images/family/"
    "common-cu129-ubuntu-2204-nvidia-580"
)
"""Google's image with driver, Docker and NVIDIA's toolkit."""
MAX_RUN_SECONDS = 30 * 86_400
"""After this Google itself deletes the machine (at most 120 days are allowed): no forgotten one
costs more than a month, and a pod that runs for so long moves on as from a spot machine."""

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


def volume_gib(disk_gib: int) -> int:
    """The boot disk that leaves `disk_gib` to the pod."""
    return IMAGE_GIB + disk_gib


def launch_body(request: LaunchRequest, options: GceOptions) -> dict[str, Any]:
    """The machine, which runs our script at each boot and has no account of its own.

    Raises:
        ProviderRefusedError: the request does not fit.
    """
    if not _NAME.fullmatch(request.stamp):
        raise ProviderRefusedError(
            f"gce cannot launch this: the name {request.stamp!r} must be 1 to 63 characters of "
            "[a-z0-9-] and begin with a letter"
        )
    reference = request.offer.reference
    zone = f"zones/{reference['zone']}"
    disk = {
        "sourceImage": options.image or DEFAULT_IMAGE,
        "diskSizeGb": str(volume_gib(request.disk_gib)),
        "diskType": f"{zone}/diskTypes/pd-balanced",
    }
    return {
        "name": request.stamp,
        "machineType": f"{zone}/machineTypes/{reference['type']}",
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": disk}],
        "networkInterfaces": [_network(request, options)],
        "scheduling": _scheduling(request),
        "metadata": {"items": _metadata(request)},
        "labels": {STAMP_LABEL: request.stamp},
        "tags": {"items": options.tags},
        "serviceAccounts": [],
    }


def _network(request: LaunchRequest, options: GceOptions) -> dict[str, Any]:
    network: dict[str, Any] = {
        "network": options.network,
        "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "nat"}],
    }
    if subnetwork := options.subnetworks.get(str(request.offer.region)):
        network["subnetwork"] = subnetwork
    return network


def _scheduling(request: LaunchRequest) -> dict[str, Any]:
    """Deleted, not stopped: a stopped machine would keep its name, and its disk would cost."""
    is_spot = request.offer.market is Market.SPOT
    return {
        "provisioningModel": "SPOT" if is_spot else "STANDARD",
        "instanceTerminationAction": "DELETE",
        # Machines with GPUs cannot be moved while they run.
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "maxRunDuration": {"seconds": str(MAX_RUN_SECONDS)},
    }


def _metadata(request: LaunchRequest) -> list[dict[str, str]]:
    return [
        {"key": "startup-script", "value": user_data(request, MAX_STARTUP_SCRIPT)},
        # Images that come without the driver install it at the first boot if asked to.
        {"key": "install-nvidia-driver", "value": "True"},
        {"key": PORTS_KEY, "value": " ".join(map(str, request.ports))},
    ]
