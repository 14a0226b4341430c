"""Search on Vast: filters, orders, and offers whose ids live for one search only."""

from __future__ import annotations

import operator
import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from local.providers.billing import disk_price_micros
from local.providers.catalog import HostMachine

_REMEMBERED_ASKS = 20_000
_DEFAULT_DISK_GB = 10.0
_DEFAULT_FILTERS: Mapping[str, Mapping[str, Any]] = {
    "verified": {"eq": True},
    "rentable": {"eq": True},
    "rented": {"eq": False},
}
_NOT_FILTERS = frozenset({"limit", "type", "order", "allocated_storage"})
_TYPES = ("ondemand", "on-demand", "bid", "reserved")
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "neq": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "in": lambda value, wanted: value in wanted,
    "notin": lambda value, unwanted: value not in unwanted,
}


class BadFilterError(ValueError):
    """A filter that Vast would refuse."""


class AskBook:
    """The offer ids that were handed out, and the machine behind each."""

    def __init__(self) -> None:
        self._machines: OrderedDict[int, HostMachine] = OrderedDict()
        self._lock = threading.Lock()

    def new_id(self, machine: HostMachine) -> int:
        with self._lock:
            ask = random.randint(10_000_000, 99_999_999)
            self._machines[ask] = machine
            if len(self._machines) > _REMEMBERED_ASKS:
                self._machines.popitem(last=False)
            return ask

    def find(self, ask: int) -> HostMachine | None:
        with self._lock:
            return self._machines.get(ask)

    def withdraw(self, ask: int) -> None:
        """Forget an offer: it has been taken."""
        with self._lock:
            self._machines.pop(ask, None)


def search(
    query: Mapping[str, Any], machines: Sequence[HostMachine], asks: AskBook, now: float
) -> list[dict[str, Any]]:
    """Answer one search with fresh offer ids.

    Raises:
        BadFilterError: the query is not one that Vast understands.
    """
    kind = query.get("type", "ondemand")
    if kind not in _TYPES:
        raise BadFilterError(f"type: {kind!r} is not one of {', '.join(_TYPES)}")
    disk = float(query.get("allocated_storage", _DEFAULT_DISK_GB))
    given = {name: value for name, value in query.items() if name not in _NOT_FILTERS}
    filters = {**_DEFAULT_FILTERS, **given}
    offers = []
    for machine in machines:
        offer = _offer(machine, is_bid=kind == "bid", disk=disk, now=now)
        # `verified` and `rented` are searched by, but not shown.
        hidden = {"verified": machine.is_verified}
        if matches({**offer, **hidden}, filters):
            ask = asks.new_id(machine)
            offers.append({"id": ask, "ask_contract_id": ask, **offer})
    return _sorted(offers, query.get("order", []))[: int(query.get("limit", 64))]


def matches(row: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    """Tell whether a row passes all filters.

    Raises:
        BadFilterError: a filter has an unknown operator or is none.
    """
    for name, conditions in filters.items():
        if not isinstance(conditions, dict):
            raise BadFilterError(f'{name}: a filter looks like {{"eq": 1}}, not {conditions!r}')
        for word, wanted in conditions.items():
            if word not in _OPERATORS:
                raise BadFilterError(f"{name}: {word!r} is not one of {', '.join(_OPERATORS)}")
            if not _passes(name, row.get(name), word, wanted):
                return False
    return True


def _passes(name: str, value: Any, word: str, wanted: Any) -> bool:
    if name == "gpu_name":
        # Both "RTX 4090" and "RTX_4090" are understood.
        spaced = [each.replace("_", " ") for each in _as_list(wanted)]
        wanted = spaced if word in ("in", "notin") else spaced[0]
    if name == "geolocation":
        value = str(value).rsplit(" ", 1)[-1]
    if value is None:
        return word in ("neq", "notin") or (word == "eq" and wanted is None)
    try:
        return bool(_OPERATORS[word](value, wanted))
    except TypeError as error:
        raise BadFilterError(f"{name}: cannot compare with {wanted!r}") from error


def _as_list(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _sorted(offers: list[dict[str, Any]], order: Sequence[Any]) -> list[dict[str, Any]]:
    for item in reversed(order):
        name, direction = (item, "asc") if isinstance(item, str) else item

        def key(offer: dict[str, Any], name: str = name) -> Any:
            return offer.get(name, 0)

        offers = sorted(offers, key=key, reverse=direction == "desc")
    return offers


def _offer(machine: HostMachine, *, is_bid: bool, disk: float, now: float) -> dict[str, Any]:
    micros = machine.min_bid_micros if is_bid else machine.micros_per_hour
    disk_dollars = disk_price_micros(disk, machine.storage_cost) / 1_000_000
    base = micros / 1_000_000
    duration = 2_592_000.0
    return {
        **machine_facts(machine),
        "gpu_frac": 1.0,
        "gpu_arch": "nvidia",
        "cpu_arch": "amd64",
        "disk_space": machine.disk_space,
        "dph_base": base,
        "dph_total": round(base + disk_dollars, 6),
        "is_bid": is_bid,
        "hosting_type": 1,
        "direct_port_count": 60,
        "static_ip": True,
        "duration": duration,
        "end_date": now + duration,
        "rentable": True,
        "rented": False,
        "vms_enabled": False,
        "search": {
            "gpuCostPerHour": base,
            "diskHour": round(disk_dollars, 6),
            "totalHour": round(base + disk_dollars, 6),
        },
    }


def machine_facts(machine: HostMachine) -> dict[str, Any]:
    """What an offer and an instance both say about their machine."""
    return {
        "machine_id": machine.machine_id,
        "host_id": machine.machine_id // 4,
        "gpu_name": machine.gpu_name,
        "num_gpus": machine.gpu.count,
        "gpu_ram": machine.gpu.memory_mib,
        "gpu_total_ram": machine.gpu.memory_mib * machine.gpu.count,
        "cpu_cores": machine.cpu_cores,
        "cpu_cores_effective": machine.cpu_cores_effective,
        "cpu_ram": machine.cpu_ram,
        "storage_cost": machine.storage_cost,
        "min_bid": machine.min_bid_micros / 1_000_000,
        "reliability": machine.reliability,
        "reliability2": machine.reliability,
        "verification": "verified" if machine.is_verified else "unverified",
        "geolocation": machine.geolocation,
        "inet_down": 850.0,
        "inet_up": 790.0,
        "inet_down_cost": 0.002,
        "inet_up_cost": 0.002,
        "cuda_max_good": float(machine.gpu.cuda_version),
        "driver_version": machine.gpu.driver_version,
    }
