"""The body of Fluence's create call: our script as the container's startup command."""

import re
from typing import Any

from podferry.domain.errors import ProviderRefusedError
from podferry.ports.gpu_cloud import LaunchRequest

MAX_STARTUP_COMMAND = 2048
MAX_ENVIRONMENT = 64
MAX_PORTS = 10
MAX_IMAGE = 255
_DEFAULT_PORT = 22
_ENVIRONMENT_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,23}[a-z0-9])?")


def launch_body(request: LaunchRequest) -> dict[str, Any]:
    """The container, at the plan and in the country of its offer.

    Raises:
        ProviderRefusedError: the request does not fit.
    """
    _check_limits(request)
    body: dict[str, Any] = {
        "plan_id": request.offer.reference["plan_id"],
        "name": request.stamp,
        "container_settings": {
            "image": request.image,
            "expose": [
                {"port": str(port), "protocol": "tcp"} for port in request.ports or (_DEFAULT_PORT,)
            ],
            "environment": [
                {"name": name, "value": value} for name, value in request.environment.items()
            ],
            "startup_command": request.bootstrap,
        },
    }
    if (country := request.offer.reference.get("country")) is not None:
        body["constraints"] = {"location": country}
    if request.ssh_public_key is not None:
        body["ssh_key"] = request.ssh_public_key
    return body


def _check_limits(request: LaunchRequest) -> None:
    """Say which limit is exceeded before the provider answers with a text of its own."""
    check_name(request.stamp)
    environment = request.environment
    bad_names = sorted(name for name in environment if not _ENVIRONMENT_NAME.fullmatch(name))
    checks = (
        (
            len(request.bootstrap) <= MAX_STARTUP_COMMAND,
            f"the bootstrap has {len(request.bootstrap)} characters, at most {MAX_STARTUP_COMMAND}",
        ),
        (not bad_names, f"environment names must be like [A-Z][A-Z0-9_]*, not {bad_names}"),
        (len(environment) <= MAX_ENVIRONMENT, f"at most {MAX_ENVIRONMENT} environment variables"),
        (
            request.ssh_public_key is None or "SSH_PUBKEY" not in environment,
            "SSH_PUBKEY is set by the SSH key; do not set it in the environment as well",
        ),
        (len(request.ports) <= MAX_PORTS, f"at most {MAX_PORTS} ports"),
        (
            len(request.image) <= MAX_IMAGE and request.image == request.image.lower(),
            f"the image must be lower case and at most {MAX_IMAGE} characters",
        ),
    )
    problems = [problem for is_met, problem in checks if not is_met]
    if problems:
        raise ProviderRefusedError(f"fluence cannot launch this: {'; '.join(problems)}")


def check_name(name: str) -> None:
    """The limits of the field `name`, of every kind.

    Raises:
        ProviderRefusedError: it does not hold to them.
    """
    if not _NAME.fullmatch(name):
        raise ProviderRefusedError(
            "fluence cannot launch this: the name must be 1 to 25 characters of [a-z0-9-]"
        )
