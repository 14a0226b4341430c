"""The body of RunPod's create call: our script as the container's entry point, no SSH needed."""

import json
import re
from typing import Any

from podferry.adapters.providers.runpod_offers import disk_gb
from podferry.domain.errors import ProviderRefusedError
from podferry.ports.gpu_cloud import LaunchRequest

# The limit also holds for what RunPod makes of the body, which repeats the command once.
MAX_BODY_BYTES = 102_400 // 2
MAX_ENVIRONMENT = 50
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def launch_body(request: LaunchRequest) -> dict[str, Any]:
    """Everything in the container runs as root: a pod is a whole machine to its user."""
    reference = request.offer.reference
    environment = {"RUNPOD_POD_USER": "0"} | request.environment
    if request.ssh_public_key is not None:
        environment["PUBLIC_KEY"] = request.ssh_public_key
    body: dict[str, Any] = {
        "name": request.stamp,
        "image": request.image,
        "cloud": reference["cloud"],
        "gpu": {
            "id": reference["gpu_id"],
            "count": reference["count"],
            "minRamPerGpu": reference["min_ram_gb_per_gpu"],
            "minVcpuCountPerGpu": reference["min_vcpus_per_gpu"],
        },
        "disk": disk_gb(request.disk_gib),
        "ports": [f"{port}/tcp" for port in request.ports],
        "env": environment,
        "entrypoint": ["/bin/sh"],
        "cmd": ["-c", request.bootstrap],
    }
    if (data_center := reference.get("data_center")) is not None:
        body["dataCenterIds"] = [data_center]
    _check_limits(request, body)
    return body


def _check_limits(request: LaunchRequest, body: dict[str, Any]) -> None:
    """Say which limit is exceeded before the provider answers with a text of its own."""
    size = len(json.dumps(body).encode())
    bad_names = sorted(n for n in request.environment if not _ENVIRONMENT_NAME.fullmatch(n))
    checks = (
        (size <= MAX_BODY_BYTES, f"the launch has {size} bytes, at most {MAX_BODY_BYTES}"),
        (
            len(body["env"]) <= MAX_ENVIRONMENT,
            f"at most {MAX_ENVIRONMENT} environment variables, with RunPod's own",
        ),
        (not bad_names, f"environment names must be words of a shell, not {bad_names}"),
    )
    problems = [problem for is_met, problem in checks if not is_met]
    if problems:
        raise ProviderRefusedError(f"runpod cannot launch this: {'; '.join(problems)}")
