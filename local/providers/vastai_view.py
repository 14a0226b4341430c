"""How Vast shows instances: one row per instance, and pages of at most 25 rows."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from local.providers.billing import disk_price_micros
from local.providers.instance import Instance, Phase
from local.providers.vastai_search import BadFilterError, matches

_LARGEST_PAGE = 25
_RENTAL_SECONDS = 2_592_000.0
_STATUS = {
    Phase.PROVISIONING: None,
    Phase.PULLING: "loading",
    Phase.RUNNING: "running",
    Phase.EXITED: "exited",
    Phase.STOPPED: "exited",
    Phase.OFFLINE: "offline",
    Phase.FAILED: "created",
}


def render(instance: Instance, machine: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Show an instance that exists."""
    details = instance.details
    intended = "stopped" if instance.phase is Phase.STOPPED else "running"
    disk_micros = disk_price_micros(details["disk"], details["storage_cost"])
    running_at = instance.entered_at(Phase.RUNNING)
    row = {
        **machine,
        "id": int(instance.id),
        "label": instance.name,
        "actual_status": _actual_status(instance),
        "intended_status": intended,
        "cur_state": intended,
        "next_state": intended,
        "status_msg": _status_message(instance),
        "image_uuid": instance.image,
        "image_runtype": details["runtype"],
        "image_args": details["args"],
        "extra_env": [list(pair) for pair in details["raw_environment"].items()],
        "onstart": details["onstart"],
        # The line break is Vast's.
        "public_ipaddr": "127.0.0.1\n",
        "ssh_host": "ssh5.vast.ai",
        "ssh_port": 10_000 + int(instance.id) % 20_000,
        "start_date": instance.created_at,
        "end_date": instance.created_at + _RENTAL_SECONDS,
        "is_bid": details["is_bid"],
        "dph_base": instance.micros_per_hour / 1_000_000,
        "dph_total": round((instance.micros_per_hour + disk_micros) / 1_000_000, 6),
        "disk_space": details["disk"],
        "uptime_mins": None if running_at is None else (now - running_at) / 60,
    }
    if instance.phase is Phase.RUNNING:
        row["ports"] = {
            port: [{"HostIp": "0.0.0.0", "HostPort": str(outside)}]
            for port, outside in instance.external_ports.items()
        }
    return row


def list_page(
    rows: list[dict[str, Any]], query: Mapping[str, str], page_size: int | None
) -> dict[str, Any]:
    """Cut one page out of the rows that pass `select_filters`.

    Raises:
        BadFilterError: a parameter cannot be read.
    """
    filters = _read_json(query, "select_filters", {})
    if not isinstance(filters, dict):
        raise BadFilterError("select_filters must be an object")
    found = sorted((row for row in rows if matches(row, filters)), key=lambda row: row["id"])
    after = _read_token(query.get("after_token", ""))
    rest = [row for row in found if row["id"] > after]
    page = rest[: _page_size(query, page_size)]
    columns = _read_json(query, "select_cols", None)
    if columns is not None:
        page = [{name: row.get(name) for name in columns} for row in page]
    has_more = len(rest) > len(page)
    last_id = rest[len(page) - 1]["id"] if page else 0
    return {
        "success": True,
        "instances_found": len(page),
        "total_instances": len(found),
        "label_counts": Counter(row["label"] for row in found),
        "next_token": _token(last_id) if has_more else None,
        "instances": page,
    }


def _page_size(query: Mapping[str, str], page_size: int | None) -> int:
    limit = query.get("limit", str(_LARGEST_PAGE))
    if not limit.isdecimal() or int(limit) < 1:
        raise BadFilterError(f"limit: {limit!r} is not 1 to {_LARGEST_PAGE}")
    return min(int(limit), page_size or _LARGEST_PAGE, _LARGEST_PAGE)


def _actual_status(instance: Instance) -> str | None:
    if instance.start_failed and instance.phase is Phase.PULLING:
        return "created"
    return _STATUS[instance.phase]


def _status_message(instance: Instance) -> str | None:
    if instance.message:
        return instance.message
    match instance.phase:
        case Phase.PROVISIONING:
            return None
        case Phase.PULLING:
            return "1f3e4a: Downloading"
        case Phase.FAILED:
            return "Error response from daemon: OCI runtime create failed: no usable GPU"
        case _:
            return f"success, running {instance.image}"


def _read_json(query: Mapping[str, str], name: str, default: Any) -> Any:
    try:
        return json.loads(query[name]) if query.get(name) else default
    except ValueError as error:
        raise BadFilterError(f"{name} is not JSON: {error}") from error


def _token(last_id: int) -> str:
    return base64.urlsafe_b64encode(str(last_id).encode()).decode()


def _read_token(token: str) -> int:
    if not token:
        return 0
    try:
        return int(base64.urlsafe_b64decode(token))
    except ValueError as error:
        raise BadFilterError("after_token is not one of ours") from error
