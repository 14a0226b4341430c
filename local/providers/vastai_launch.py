"""The body of a Vast launch: its limits, and what it means for the container."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from local.providers.catalog import HostMachine

_LONGEST_IMAGE = 1024
_LONGEST_LABEL = 256
_LONGEST_VALUE = 256
_LONGEST_ENVIRONMENT = 32_768
_LONGEST_COMMAND = 4096
_SMALLEST_DISK_GB = 8.0
_DEFAULT_DISK_GB = 10.0
_MOST_PORTS = 64
_PRICE_RANGE = (0.001, 128.0)
_RUNTYPES = (
    "args",
    "ssh",
    "ssh_direct",
    "ssh_proxy",
    "jupyter",
    "jupyter_direct",
    "jupyter_proxy",
)


class LaunchRefusedError(Exception):
    """The body breaks a rule; `code` is the word Vast uses."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Launch:
    """A checked launch."""

    image: str
    disk: float
    label: str
    runtype: str
    onstart: str
    args: tuple[str, ...]
    environment: dict[str, str]
    ports: tuple[str, ...]
    raw_environment: dict[str, str]
    price_micros: int | None
    """A bid; None rents on demand."""
    is_cancelled_if_unavailable: bool

    @property
    def argv(self) -> list[str]:
        """The container's command."""
        if self.runtype != "args":
            # Vast's own entrypoint runs the script at each start and then waits for logins.
            return ["/bin/sh", "-c", "/bin/sh /root/onstart.sh; exec sleep infinity"]
        words = [*shlex.split(self.onstart), *self.args]
        return words or ["sleep", "infinity"]


def read_launch(body: Any) -> Launch:
    """Check a launch.

    Raises:
        LaunchRefusedError: with Vast's word and a text.
    """
    if not isinstance(body, dict):
        raise LaunchRefusedError("invalid_args", "body must be an object")
    image = _text(body, "image", _LONGEST_IMAGE)
    if not image:
        raise LaunchRefusedError("invalid_args", "image is required")
    environment = _read_environment(body.get("env", {}))
    flags = [name for name in environment if name.startswith("-p ")]
    price = _read_price(body)
    runtype = _text(body, "runtype") or "ssh"
    if runtype not in _RUNTYPES:
        raise LaunchRefusedError("invalid_args", f"runtype must be one of {', '.join(_RUNTYPES)}")
    return Launch(
        image=image,
        disk=_read_disk(body),
        label=_text(body, "label", _LONGEST_LABEL),
        runtype=runtype,
        onstart=_text(body, "onstart"),
        args=_read_args(body),
        environment={k: v for k, v in environment.items() if not k.startswith("-")},
        ports=_read_ports(flags),
        raw_environment=environment,
        price_micros=price,
        is_cancelled_if_unavailable=bool(body.get("cancel_unavail", price is None)),
    )


def is_bid_too_low(launch: Launch, machine: HostMachine) -> bool:
    return launch.price_micros is not None and launch.price_micros < machine.min_bid_micros


def _text(body: dict[str, Any], name: str, longest: int | None = None) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise LaunchRefusedError("invalid_args", f"{name} must be a string")
    if longest is not None and len(value) > longest:
        raise LaunchRefusedError("invalid_args", f"{name} is longer than {longest}")
    return value


def _read_args(body: dict[str, Any]) -> tuple[str, ...]:
    args = body.get("args")
    if args is None:
        args = shlex.split(_text(body, "args_str"))
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise LaunchRefusedError("invalid_args", "args must be a list of strings")
    if sum(map(len, args)) + len(_text(body, "onstart")) > _LONGEST_COMMAND:
        raise LaunchRefusedError(
            "invalid_args", f"args and onstart are longer than {_LONGEST_COMMAND} together"
        )
    return tuple(args)


def _read_disk(body: dict[str, Any]) -> float:
    disk = body.get("disk", _DEFAULT_DISK_GB)
    if not isinstance(disk, int | float) or disk < _SMALLEST_DISK_GB:
        raise LaunchRefusedError("invalid_args", f"disk must be at least {_SMALLEST_DISK_GB:g}")
    return float(disk)


def _read_price(body: dict[str, Any]) -> int | None:
    price = body.get("price")
    if price is None:
        return None
    low, high = _PRICE_RANGE
    if not isinstance(price, int | float) or not low <= price <= high:
        raise LaunchRefusedError("invalid_price", f"price must be between {low} and {high}")
    return round(price * 1_000_000)


def _read_environment(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise LaunchRefusedError("invalid_args", "env must be an object of strings")
    for name, text in value.items():
        if len(text) > _LONGEST_VALUE:
            raise LaunchRefusedError(
                "invalid_args", f"env value of {name} is longer than {_LONGEST_VALUE}"
            )
    if sum(len(name) + len(text) for name, text in value.items()) > _LONGEST_ENVIRONMENT:
        raise LaunchRefusedError("invalid_args", f"env is longer than {_LONGEST_ENVIRONMENT}")
    return dict(value)


def _read_ports(flags: list[str]) -> tuple[str, ...]:
    """Read `-p 22:22` and `-p 53:53/udp`; the outside port is Vast's choice all the same."""
    ports = []
    for flag in flags:
        inside = flag.removeprefix("-p ").rpartition(":")[2]
        number, _, protocol = inside.partition("/")
        if not number.isdecimal() or not 1 <= int(number) <= 65535:
            raise LaunchRefusedError("invalid_args", f"bad port flag {flag!r}")
        ports.append(f"{number}/{protocol or 'tcp'}")
    if len(ports) > _MOST_PORTS:
        raise LaunchRefusedError("invalid_args", f"more than {_MOST_PORTS} ports")
    return tuple(ports)
