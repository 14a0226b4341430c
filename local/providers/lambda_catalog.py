"""What the simulated Lambda has to offer, at prices like those of the real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from local.boxes.spec import GPU
from local.providers.catalog import Stocked

MICROS_PER_CENT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaStock(Stocked):
    """Machines of one type in one region."""

    type_name: str
    gpu: GPU
    gpu_description: str
    vcpus: int
    memory_gib: int
    storage_gib: int
    region: str
    region_description: str

    def render_type(self, micros_per_hour: int) -> dict[str, Any]:
        return {
            "name": self.type_name,
            "description": f"{self.gpu.count}x {self.gpu_description}",
            "gpu_description": self.gpu_description,
            "price_cents_per_hour": round(micros_per_hour / MICROS_PER_CENT),
            "specs": {
                "vcpus": self.vcpus,
                "memory_gib": self.memory_gib,
                "storage_gib": self.storage_gib,
                "gpus": self.gpu.count,
            },
        }

    @property
    def rendered_region(self) -> dict[str, str]:
        return {"name": self.region, "description": self.region_description}


_A10_WEST = LambdaStock(
    name="gpu_1x_a10@us-west-1",
    type_name="gpu_1x_a10",
    gpu=GPU("NVIDIA A10", 23028),
    gpu_description="A10 (24 GB PCIe)",
    vcpus=30,
    memory_gib=200,
    storage_gib=1400,
    micros_per_hour=750_000,
    region="us-west-1",
    region_description="California, USA",
    stock=5,
)
_H100 = LambdaStock(
    name="gpu_1x_h100_pcie@us-west-3",
    type_name="gpu_1x_h100_pcie",
    gpu=GPU("NVIDIA H100 PCIe", 81559),
    gpu_description="H100 (80 GB PCIe)",
    vcpus=26,
    memory_gib=200,
    storage_gib=1024,
    micros_per_hour=2_490_000,
    region="us-west-3",
    region_description="Utah, USA",
    stock=4,
)

LAMBDA_STOCK: Sequence[LambdaStock] = (
    _A10_WEST,
    replace(
        _A10_WEST,
        name="gpu_1x_a10@europe-central-1",
        region="europe-central-1",
        region_description="Germany",
        stock=2,
    ),
    _H100,
    replace(
        _H100,
        name="gpu_8x_h100_sxm5@us-east-1",
        type_name="gpu_8x_h100_sxm5",
        gpu=GPU("NVIDIA H100 80GB HBM3", 81559, count=8),
        gpu_description="H100 (80 GB SXM5)",
        vcpus=208,
        memory_gib=1800,
        storage_gib=22_528,
        micros_per_hour=23_920_000,
        region="us-east-1",
        region_description="Virginia, USA",
        stock=1,
    ),
    # Sold out, which is told by an empty list of regions; and not for x86-64.
    replace(
        _H100,
        name="gpu_1x_gh200@us-east-3",
        type_name="gpu_1x_gh200",
        gpu=GPU("NVIDIA GH200 480GB", 97871),
        gpu_description="GH200 (96 GB)",
        region="us-east-3",
        region_description="Washington DC, USA",
        stock=0,
    ),
)


def render_catalog(
    entries: Sequence[LambdaStock], in_stock: Sequence[LambdaStock]
) -> dict[str, Any]:
    """The map of `GET /instance-types`: a type without capacity stays in it, without regions."""
    rows: dict[str, Any] = {}
    for entry in entries:
        row = rows.setdefault(
            entry.type_name,
            {
                "instance_type": entry.render_type(entry.micros_per_hour),
                "regions_with_capacity_available": [],
            },
        )
        if entry in in_stock:
            row["regions_with_capacity_available"].append(entry.rendered_region)
    return rows
