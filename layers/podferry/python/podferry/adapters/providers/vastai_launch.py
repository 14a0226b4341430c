"""The body of Vast.ai's launch call: our script as the container's entry point, no SSH needed."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from podferry.adapters.providers.units import gb_from_gib
from podferry.domain.errors import ProviderRefusedError
from podferry.domain.offer import Market
from podferry.ports.gpu_cloud import LaunchRequest

MAX_ARGUMENTS = 4096
MAX_VALUE = 256
MAX_ENVIRONMENT = 32_768
MAX_PORTS = 64
MAX_LABEL = 256
MAX_IMAGE = 1024
MIN_DISK_GB = 8
HIGHEST_BID_MICROUSD = 128_000_000

# Values go through Docker flags on their way; anything but plain words travels in the script.
_PLAIN_VALUE = re.compile(rf"[A-Za-z0-9_./:@%+=,~?&;!*-]{{0,{MAX_VALUE}}}")
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def disk_gb(gib: int) -> int:
    """What to ask for so that `gib` GiB fit."""
    return max(gb_from_gib(gib), MIN_DISK_GB)


def launch_body(request: LaunchRequest) -> dict[str, Any]:
    """A `price` makes the rental interruptible: only a bid has one."""
    plain = {name: v for name, v in request.environment.items() if _PLAIN_VALUE.fullmatch(v)}
    exports = (
        f"export {name}={shlex.quote(value)}\n"
        for name, value in request.environment.items()
        if name not in plain
    )
    body = {
        "client_id": "me",
        "image": request.image,
        "disk": disk_gb(request.disk_gib),
        "label": request.stamp,
        "runtype": "args",
        "user": "root",
        "onstart": "/bin/sh",
        "args": ["-c", "".join(exports) + request.bootstrap],
        "env": plain | {f"-p {port}:{port}": "1" for port in request.ports},
        # Else a bid that does not lead would be queued, and bill its disk.
        "cancel_unavail": True,
    }
    if request.offer.market is Market.SPOT:
        body["price"] = int(request.offer.reference["bid_microusd"]) / 1_000_000
    _check_limits(request, body)
    return body


def _check_limits(request: LaunchRequest, body: Mapping[str, Any]) -> None:
    """Say which limit is exceeded before the provider answers with a text of its own."""
    arguments = len(body["onstart"]) + sum(len(argument) for argument in body["args"])
    environment = sum(len(name) + len(value) for name, value in body["env"].items())
    bad_names = sorted(n for n in request.environment if not _ENVIRONMENT_NAME.fullmatch(n))
    checks = (
        (
            arguments <= MAX_ARGUMENTS,
            f"bootstrap and long values are {arguments} characters, at most {MAX_ARGUMENTS}",
        ),
        (environment <= MAX_ENVIRONMENT, f"at most {MAX_ENVIRONMENT} characters of environment"),
        (not bad_names, f"environment names must be words of a shell, not {bad_names}"),
        (len(request.ports) <= MAX_PORTS, f"at most {MAX_PORTS} ports"),
        (len(request.stamp) <= MAX_LABEL, f"the label has at most {MAX_LABEL} characters"),
        (len(request.image) <= MAX_IMAGE, f"the image has at most {MAX_IMAGE} characters"),
    )
    problems = [problem for is_met, problem in checks if not is_met]
    if problems:
        raise ProviderRefusedError(f"vastai cannot launch this: {'; '.join(problems)}")
