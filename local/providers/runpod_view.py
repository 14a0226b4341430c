"""How RunPod shows pods: one object for each, and pages of them by cursor."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from local.providers.billing import disk_price_micros
from local.providers.clock import to_rfc3339
from local.providers.instance import Instance, Phase

_ADDRESS = "127.0.0.1"
_LARGEST_PAGE = 1000
_STATUS = {
    Phase.PROVISIONING: "PROVISIONING",
    Phase.PULLING: "STARTING",
    Phase.RUNNING: "RUNNING",
    Phase.EXITED: "EXITED",
    Phase.STOPPED: "EXITED",
    Phase.OFFLINE: "EXITED",
    Phase.FAILED: "ERROR",
    Phase.GONE: "TERMINATED",
}
_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "PROVISIONING": ("stop", "terminate"),
    "STARTING": ("stop", "terminate"),
    "RUNNING": ("stop", "restart", "terminate"),
    "EXITED": ("start", "terminate"),
    "ERROR": ("start", "terminate"),
}


class BadPageError(ValueError):
    """A parameter of a list cannot be read; `status` is the answer's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def actions(instance: Instance) -> tuple[str, ...]:
    """What can be asked of the pod in its present status."""
    return _ACTIONS.get(_STATUS[instance.phase], ())


def render(instance: Instance, now: float, status: str | None = None) -> dict[str, Any]:
    """Show a pod that exists; `status` is said in place of the true one."""
    details = instance.details
    is_running = instance.phase is Phase.RUNNING
    running_at = instance.entered_at(Phase.RUNNING)
    return {
        "id": instance.id,
        "name": instance.name,
        "status": status or _STATUS[instance.phase],
        "actions": list(actions(instance)),
        "image": instance.image,
        "args": details["args"],
        "entrypoint": details["entrypoint"],
        "cmd": details["cmd"],
        "disk": details["disk"],
        "ports": instance.ports,
        "env": instance.environment,
        "registry": None,
        "mounts": {},
        "gpu": details["gpu"],
        "cloud": details["cloud"],
        "dataCenterId": details["data_center"],
        "cudaVersion": instance.gpu.cuda_version,
        "ssh": {"proxy": None, "direct": _direct_ssh(instance) if is_running else None},
        "template": None,
        "cost": _cost(instance),
        "locked": False,
        "globalNetworking": {"enabled": False},
        "runtime": _runtime(instance, now) if is_running else None,
        "createdAt": to_rfc3339(instance.created_at),
        "startedAt": None if running_at is None else to_rfc3339(running_at),
    }


def list_page(
    pods: list[Instance], query: Mapping[str, str], page_size: int | None
) -> tuple[list[Instance], dict[str, Any]]:
    """One page of the pods, oldest first, and what the answer says of the next one.

    Raises:
        BadPageError: `limit` or `cursor` cannot be read.
    """
    limit = query.get("limit", str(_LARGEST_PAGE))
    if not limit.isdecimal() or not 1 <= int(limit) <= _LARGEST_PAGE:
        raise BadPageError(422, f"limit must be between 1 and {_LARGEST_PAGE}")
    after = _read_cursor(query.get("cursor", ""))
    rest = sorted((pod for pod in pods if _key(pod) > after), key=_key)
    page = rest[: min(int(limit), page_size or _LARGEST_PAGE)]
    has_more = len(rest) > len(page)
    cursor = _cursor(page[-1]) if has_more else None
    return page, {"hasNextPage": has_more, "nextCursor": cursor}


def _cost(instance: Instance) -> float:
    """A failed pod goes on costing; a stopped one only its disk, which is not told here."""
    if instance.phase in (Phase.EXITED, Phase.STOPPED, Phase.OFFLINE):
        return 0.0
    details = instance.details
    disk_micros = disk_price_micros(details["disk"], details["storage_cost"])
    return round((instance.micros_per_hour + disk_micros) / 1_000_000, 6)


def _runtime(instance: Instance, now: float) -> dict[str, Any]:
    gpus = [{"util": 0, "memoryUtil": 0} for _ in range(instance.gpu.count)]
    return {
        "uptime": int(now - (instance.entered_at(Phase.RUNNING) or now)),
        "gpus": gpus,
        "cpu": {"util": 0},
        "memory": {"util": 0},
        "ports": [_port(name, outside) for name, outside in instance.external_ports.items()],
    }


def _port(name: str, outside: int) -> dict[str, Any]:
    number, _, protocol = name.partition("/")
    is_direct = protocol == "tcp"
    return {
        "private": int(number),
        "public": outside if is_direct else None,
        "type": protocol,
        "ip": _ADDRESS if is_direct else None,
    }


def _direct_ssh(instance: Instance) -> dict[str, Any] | None:
    port = instance.external_ports.get("22/tcp")
    if port is None:
        return None
    command = f"ssh root@{_ADDRESS} -p {port}"
    return {"host": _ADDRESS, "port": port, "username": "root", "command": command}


def _key(pod: Instance) -> tuple[float, str]:
    return pod.created_at, pod.id


def _cursor(pod: Instance) -> str:
    return base64.urlsafe_b64encode(f"{pod.created_at!r}|{pod.id}".encode()).decode()


def _read_cursor(cursor: str) -> tuple[float, str]:
    if not cursor:
        return 0.0, ""
    try:
        time, _, pod_id = base64.urlsafe_b64decode(cursor).decode().partition("|")
        return float(time), pod_id
    except ValueError as error:
        raise BadPageError(400, "cursor is not one of ours") from error
