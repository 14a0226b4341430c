"""Machine types of the simulated clouds that rent virtual machines, at prices like the real ones.

Prices are of us-east-1 (EC2) and us-central1 (Google) in November 2026, rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from local.boxes.spec import GPU
from local.providers.catalog import Stocked


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType(Stocked):
    """One type in one region; `stock` counts over its zones."""

    gpu: GPU
    gpu_name: str
    """As the provider says it."""
    vcpus: int
    memory_mib: int
    spot_micros_per_hour: int
    zones: tuple[str, ...]


_L4 = GPU("NVIDIA L4", 23034)
_T4 = GPU("Tesla T4", 15360)
_A100 = GPU("NVIDIA A100-SXM4-40GB", 40960)
_A10G = GPU("NVIDIA A10G", 23028)

EC2_TYPES: Sequence[MachineType] = (
    MachineType(
        name="g4dn.xlarge",
        gpu=_T4,
        gpu_name="T4",
        vcpus=4,
        memory_mib=16_384,
        micros_per_hour=526_000,
        spot_micros_per_hour=210_000,
        stock=6,
        zones=("us-east-1a", "us-east-1b"),
    ),
    MachineType(
        name="g5.2xlarge",
        gpu=_A10G,
        gpu_name="A10G",
        vcpus=8,
        memory_mib=32_768,
        micros_per_hour=1_212_000,
        spot_micros_per_hour=550_000,
        stock=4,
        zones=("us-east-1b",),
    ),
    MachineType(
        name="g6.xlarge",
        gpu=_L4,
        gpu_name="L4",
        vcpus=4,
        memory_mib=16_384,
        micros_per_hour=804_800,
        spot_micros_per_hour=312_400,
        stock=6,
        zones=("us-east-1a", "us-east-1b"),
    ),
)

GCE_TYPES: Sequence[MachineType] = (
    MachineType(
        name="g2-standard-8",
        gpu=_L4,
        gpu_name="nvidia-l4",
        vcpus=8,
        memory_mib=32_768,
        micros_per_hour=853_624,
        spot_micros_per_hour=336_764,
        stock=6,
        zones=("us-central1-a", "us-central1-c", "europe-west4-b"),
    ),
    MachineType(
        name="g2-standard-48",
        gpu=replace(_L4, count=4),
        gpu_name="nvidia-l4",
        vcpus=48,
        memory_mib=196_608,
        micros_per_hour=4_001_665,
        spot_micros_per_hour=1_574_384,
        stock=2,
        zones=("us-central1-a",),
    ),
    MachineType(
        name="a2-highgpu-1g",
        gpu=_A100,
        gpu_name="nvidia-tesla-a100",
        vcpus=12,
        memory_mib=87_040,
        micros_per_hour=3_673_385,
        spot_micros_per_hour=1_293_355,
        stock=2,
        zones=("us-central1-c",),
    ),
)
