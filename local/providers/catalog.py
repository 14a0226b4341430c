"""What the simulated providers have to offer, at prices like those of the real ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from local.boxes.spec import GPU
from local.providers.instance import Instance


class PriceFileError(ValueError):
    """The file with prices is not usable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stocked:
    """Something that a provider rents out, as often as it has it."""

    name: str
    micros_per_hour: int
    stock: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Stocked):
    """A Fluence container plan: one product in several countries."""

    id: str
    gpu: GPU
    model: str
    interface: str
    vcpus: int
    memory_gib: int
    storage_gib: int
    locations: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOption(Stocked):
    """A virtual machine or a real one that somebody rents out on Fluence."""

    id: str
    collection: str
    """The list it is in: vms or baremetal."""
    gpu: GPU
    model: str
    interface: str
    vcpus: int
    memory_gib: int
    storage_gib: int
    location: str
    seller: str
    os_options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMachine(Stocked):
    """A machine that a host rents out on Vast."""

    machine_id: int
    gpu: GPU
    gpu_name: str
    cpu_cores: int
    cpu_cores_effective: float
    cpu_ram: int
    disk_space: float
    storage_cost: float
    min_bid_micros: int
    reliability: float
    geolocation: str
    is_verified: bool = True


_H100 = GPU("NVIDIA H100 80GB HBM3", 81559, driver_version="550.127.05", cuda_version="12.4")
_A100 = GPU("NVIDIA A100 80GB PCIe", 81920, driver_version="550.127.05", cuda_version="12.4")
_RTX_4090 = GPU("NVIDIA GeForce RTX 4090", 24564)
_RTX_3090 = GPU("NVIDIA GeForce RTX 3090", 24576, driver_version="535.183.01", cuda_version="12.2")
_RTX_A2000 = GPU("NVIDIA RTX A2000", 6138)
_RTX_3060 = GPU("NVIDIA GeForce RTX 3060", 12288)

_OPTION_ID = "0c7f3a52-2222-4c0e-9a55-0a0a0a0a0a0"
_PLAN_ID = "5b1f6b0e-1111-4c0e-9a55-0a0a0a0a0a0"

FLUENCE_PLANS: Sequence[Plan] = (
    Plan(
        name="h100-80gi-sxm-1gpu-16cpu-128gb-200gb",
        id=_PLAN_ID + "1",
        gpu=_H100,
        model="h100",
        interface="SXM",
        vcpus=16,
        memory_gib=128,
        storage_gib=200,
        micros_per_hour=1_500_000,
        stock=4,
        locations=("US", "NO"),
    ),
    Plan(
        name="h100-80gi-sxm-8gpu-128cpu-1024gb-1600gb",
        id=_PLAN_ID + "2",
        gpu=replace(_H100, count=8),
        model="h100",
        interface="SXM",
        vcpus=128,
        memory_gib=1024,
        storage_gib=1600,
        micros_per_hour=12_000_000,
        stock=1,
        locations=("US",),
    ),
    Plan(
        name="rtx4090-24gi-pcie-1gpu-8cpu-32gb-100gb",
        id=_PLAN_ID + "3",
        gpu=_RTX_4090,
        model="rtx4090",
        interface="pcie",
        vcpus=8,
        memory_gib=32,
        storage_gib=100,
        micros_per_hour=400_000,
        stock=6,
        locations=("DE", "US"),
    ),
    Plan(
        name="a2000-6gi-pcie-1gpu-2cpu-4gb-20gb",
        id=_PLAN_ID + "4",
        gpu=_RTX_A2000,
        model="a2000",
        interface="pcie",
        vcpus=2,
        memory_gib=4,
        storage_gib=20,
        micros_per_hour=60_000,
        stock=4,
        locations=("PL",),
    ),
)

FLUENCE_MACHINES: Sequence[MachineOption] = (
    MachineOption(
        name="vm-a100-80gi-pcie-1gpu",
        id=_OPTION_ID + "1",
        collection="vms",
        gpu=_A100,
        model="a100",
        interface="pcie",
        vcpus=14,
        memory_gib=93,
        storage_gib=580,
        location="us-central-3",
        seller="massed-compute",
        os_options=("Ubuntu Server 22.04", "ubuntu22.04_cuda12.4_shade_os"),
        micros_per_hour=1_100_000,
        stock=4,
    ),
    MachineOption(
        name="baremetal-a100-80gi-pcie-1gpu",
        id=_OPTION_ID + "3",
        collection="baremetal",
        gpu=_A100,
        model="a100",
        interface="pcie",
        vcpus=32,
        memory_gib=256,
        storage_gib=1900,
        location="us-east-1",
        seller="sesterce",
        os_options=("Ubuntu Server 24.04", "Ubuntu Server 22.04"),
        micros_per_hour=1_900_000,
        stock=4,
    ),
    MachineOption(
        name="baremetal-h100-80gi-sxm-8gpu",
        id=_OPTION_ID + "2",
        collection="baremetal",
        gpu=replace(_H100, count=8),
        model="h100",
        interface="SXM",
        vcpus=192,
        memory_gib=2048,
        storage_gib=15_000,
        location="eu-north-1",
        seller="sesterce",
        os_options=("Ubuntu Server 24.04", "Ubuntu Server 22.04"),
        micros_per_hour=16_000_000,
        stock=2,
    ),
)

VAST_MACHINES: Sequence[HostMachine] = (
    HostMachine(
        name="rtx-4090-sweden",
        machine_id=20111,
        gpu=_RTX_4090,
        gpu_name="RTX 4090",
        cpu_cores=64,
        cpu_cores_effective=16.0,
        cpu_ram=257_000,
        disk_space=812.4,
        storage_cost=0.15,
        micros_per_hour=350_000,
        min_bid_micros=180_000,
        reliability=0.9965,
        geolocation="Sweden, SE",
        stock=4,
    ),
    HostMachine(
        name="rtx-4090-texas",
        machine_id=20222,
        gpu=_RTX_4090,
        gpu_name="RTX 4090",
        cpu_cores=32,
        cpu_cores_effective=32.0,
        cpu_ram=128_000,
        disk_space=400.0,
        storage_cost=0.20,
        micros_per_hour=390_000,
        min_bid_micros=210_000,
        reliability=0.9871,
        geolocation="Texas, US",
        stock=2,
    ),
    HostMachine(
        name="rtx-3090-poland",
        machine_id=20333,
        gpu=_RTX_3090,
        gpu_name="RTX 3090",
        cpu_cores=32,
        cpu_cores_effective=8.0,
        cpu_ram=64_000,
        disk_space=250.0,
        storage_cost=0.10,
        micros_per_hour=180_000,
        min_bid_micros=90_000,
        reliability=0.9912,
        geolocation="Poland, PL",
        stock=4,
    ),
    HostMachine(
        name="rtx-3060-finland",
        machine_id=20444,
        gpu=_RTX_3060,
        gpu_name="RTX 3060",
        cpu_cores=8,
        cpu_cores_effective=4.0,
        cpu_ram=16_000,
        disk_space=120.0,
        storage_cost=0.10,
        micros_per_hour=50_000,
        min_bid_micros=25_000,
        reliability=0.9933,
        geolocation="Finland, FI",
        stock=4,
    ),
    HostMachine(
        name="rtx-3090-unverified",
        machine_id=20555,
        gpu=_RTX_3090,
        gpu_name="RTX 3090",
        cpu_cores=16,
        cpu_cores_effective=16.0,
        cpu_ram=32_000,
        disk_space=100.0,
        storage_cost=0.10,
        micros_per_hour=120_000,
        min_bid_micros=60_000,
        reliability=0.8012,
        geolocation="Brazil, BR",
        stock=2,
        is_verified=False,
    ),
)

Entry = TypeVar("Entry", bound=Stocked)
_CHANGEABLE = frozenset({"micros_per_hour", "min_bid_micros", "stock"})


def with_price_file(entries: Sequence[Entry], path: Path | None) -> tuple[Entry, ...]:
    """Change prices and stock: `{"offer name": {"micros_per_hour": 1, "stock": 2}}`.

    Raises:
        PriceFileError: the file is unreadable or names something that does not exist.
    """
    if path is None:
        return tuple(entries)
    try:
        changes = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise PriceFileError(f"{path}: {error}") from error
    unknown = set(changes) - {entry.name for entry in entries}
    if unknown:
        names = ", ".join(entry.name for entry in entries)
        raise PriceFileError(f"{path}: no offer {sorted(unknown)}; there are {names}")
    return tuple(_changed(entry, changes.get(entry.name, {}), path) for entry in entries)


def _changed(entry: Entry, values: dict[str, Any], path: Path) -> Entry:
    known = _CHANGEABLE & {field.name for field in fields(entry)}
    for name, value in values.items():
        if name not in known or not isinstance(value, int) or value < 0:
            raise PriceFileError(
                f"{path}: {entry.name}: {name}={value!r}; use whole numbers for {sorted(known)}"
            )
    return replace(entry, **values)


def remaining_stock(entry: Stocked, instances: Iterable[Instance]) -> int:
    taken = sum(each.offer == entry.name and each.phase.holds_stock for each in instances)
    return entry.stock - taken
