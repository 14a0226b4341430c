"""What the simulated RunPod has to offer, at prices like those of the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from local.boxes.spec import GPU
from local.providers.catalog import Stocked, remaining_stock
from local.providers.instance import Instance

STORAGE_COST = 0.10
"""Dollars for a GB and month of container disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunpodStock(Stocked):
    """Hosts with one type of GPU in one place; the price is that of one GPU."""

    display_name: str
    gpu: GPU
    memory_gb: int
    cloud: str
    data_center: str | None
    """None for hosts of the community."""
    vcpus_per_gpu: int
    ram_gb_per_gpu: int
    max_count: int

    @property
    def gpu_id(self) -> str:
        """RunPod calls a type of GPU by the name that its driver gives."""
        return self.gpu.model

    def availability(self, left: int) -> str:
        """How RunPod calls a stock of so many pods."""
        if left == 0:
            return "NONE"
        return "LOW" if left == 1 else "MEDIUM" if left < self.stock else "HIGH"


_A4000 = GPU("NVIDIA RTX A4000", 16376, driver_version="550.127.05", cuda_version="12.4")
_H100 = GPU("NVIDIA H100 80GB HBM3", 81559, driver_version="565.57.01", cuda_version="12.7")

_RTX_4090_ROMANIA = RunpodStock(
    name="rtx-4090-romania",
    display_name="RTX 4090",
    gpu=GPU("NVIDIA GeForce RTX 4090", 24564),
    memory_gb=24,
    cloud="SECURE",
    data_center="EU-RO-1",
    vcpus_per_gpu=12,
    ram_gb_per_gpu=48,
    micros_per_hour=690_000,
    max_count=8,
    stock=4,
)

RUNPOD_STOCK: Sequence[RunpodStock] = (
    _RTX_4090_ROMANIA,
    replace(
        _RTX_4090_ROMANIA,
        name="rtx-4090-kansas",
        data_center="US-KS-2",
        vcpus_per_gpu=16,
        ram_gb_per_gpu=62,
        stock=2,
    ),
    replace(
        _RTX_4090_ROMANIA,
        name="rtx-4090-community",
        cloud="COMMUNITY",
        data_center=None,
        vcpus_per_gpu=8,
        ram_gb_per_gpu=30,
        micros_per_hour=340_000,
        max_count=4,
    ),
    RunpodStock(
        name="rtx-a4000-norway",
        display_name="RTX A4000",
        gpu=_A4000,
        memory_gb=16,
        cloud="SECURE",
        data_center="EUR-NO-1",
        vcpus_per_gpu=6,
        ram_gb_per_gpu=25,
        micros_per_hour=250_000,
        max_count=8,
        stock=6,
    ),
    RunpodStock(
        name="h100-sxm-iceland",
        display_name="H100 SXM",
        gpu=_H100,
        memory_gb=80,
        cloud="SECURE",
        data_center="EUR-IS-1",
        vcpus_per_gpu=20,
        ram_gb_per_gpu=125,
        micros_per_hour=2_690_000,
        max_count=8,
        stock=2,
    ),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a catalogue or a create call narrows the stock to."""

    clouds: tuple[str, ...]
    count: int = 1
    gpu_id: str | None = None
    data_centers: tuple[str, ...] = ()
    min_ram_gb_per_gpu: int = 0
    min_vcpus_per_gpu: int = 0

    def fits(self, entry: RunpodStock) -> bool:
        return (
            entry.cloud in self.clouds
            and entry.max_count >= self.count
            and self.gpu_id in {None, entry.gpu_id}
            and (not self.data_centers or entry.data_center in self.data_centers)
            and entry.ram_gb_per_gpu >= self.min_ram_gb_per_gpu
            and entry.vcpus_per_gpu >= self.min_vcpus_per_gpu
        )


def render_catalog(
    entries: Sequence[RunpodStock], instances: Iterable[Instance], asked: Asked
) -> list[dict[str, object]]:
    """The rows of `GET /v2/catalog/gpus`: prices for all clouds, stock for the asked ones."""
    instances = list(instances)
    ids = dict.fromkeys(entry.gpu_id for entry in entries)
    return [
        _render_type([e for e in entries if e.gpu_id == gpu_id], instances, asked) for gpu_id in ids
    ]


def _render_type(
    entries: list[RunpodStock], instances: list[Instance], asked: Asked
) -> dict[str, object]:
    first = entries[0]
    left = {e.name: remaining_stock(e, instances) if asked.fits(e) else 0 for e in entries}
    best = max(entries, key=lambda entry: left[entry.name])
    return {
        "id": first.gpu_id,
        "name": first.display_name,
        "pool": None,
        "manufacturer": "NVIDIA",
        "memory": first.memory_gb,
        "secure": any(entry.cloud == "SECURE" for entry in entries),
        "community": any(entry.cloud == "COMMUNITY" for entry in entries),
        "price": _by_cloud(entries, lambda entry: entry.micros_per_hour / 1_000_000)
        | {"serverless": None},
        "maxCount": _by_cloud(entries, lambda entry: entry.max_count),
        "availability": best.availability(left[best.name]),
        "dataCenters": [
            {
                "id": entry.data_center,
                "name": entry.data_center,
                "availability": entry.availability(left[entry.name]),
            }
            for entry in entries
            if entry.data_center is not None
        ],
        "cudaVersions": [
            {"version": first.gpu.cuda_version, "available": left[best.name] > 0},
        ],
    }


def _by_cloud(
    entries: list[RunpodStock], value: Callable[[RunpodStock], float]
) -> dict[str, float | None]:
    def of(cloud: str) -> float | None:
        return next((value(entry) for entry in entries if entry.cloud == cloud), None)

    return {"secure": of("SECURE"), "community": of("COMMUNITY")}
