"""List prices of Google's GPU machine types, because the Compute Engine API tells none.

Source: `pricing.yml` of Cyclenerd/google-cloud-pricing-cost-calculator (Apache-2.0), generated from
the Cloud Billing Catalog on 2025-03-06; types of one family cost in proportion to their GPUs.
Spot prices may change once a month. A place that is not in the table is not offered: its price
would be a guess. Disk and address: Google's price list of the same regions.
"""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class GpuMachine:
    """A machine type with its GPUs built in; vCPUs and memory are told by the API."""

    gpu_name: str
    gpu_count: int
    vram_mib: int


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per hour."""

    on_demand: Decimal
    spot: Decimal


MACHINES = {
    "g2-standard-8": GpuMachine("L4", 1, 23_034),
    "g2-standard-48": GpuMachine("L4", 4, 23_034),
    "a2-highgpu-1g": GpuMachine("A100 SXM", 1, 40_960),
    "a2-highgpu-2g": GpuMachine("A100 SXM", 2, 40_960),
    "a2-highgpu-4g": GpuMachine("A100 SXM", 4, 40_960),
    "a2-highgpu-8g": GpuMachine("A100 SXM", 8, 40_960),
    "a2-ultragpu-1g": GpuMachine("A100 SXM", 1, 81_920),
    "a2-ultragpu-2g": GpuMachine("A100 SXM", 2, 81_920),
    "a2-ultragpu-4g": GpuMachine("A100 SXM", 4, 81_920),
    "a2-ultragpu-8g": GpuMachine("A100 SXM", 8, 81_920),
    "a3-highgpu-1g": GpuMachine("H100 SXM", 1, 81_559),
    "a3-highgpu-2g": GpuMachine("H100 SXM", 2, 81_559),
    "a3-highgpu-4g": GpuMachine("H100 SXM", 4, 81_559),
    "a3-highgpu-8g": GpuMachine("H100 SXM", 8, 81_559),
}

_US = {
    "g2-standard-8": ("0.853624", "0.336764"),
    "g2-standard-48": ("4.001665", "1.574384"),
    "a2-highgpu": ("3.673385", "1.293355"),
    "a2-ultragpu": ("5.068798", "2.027468"),
    "a3-highgpu": ("11.061250", "4.424469"),
}
_BY_REGION = {
    "us-central1": _US,
    "us-east1": _US,
    "us-west1": _US,
    "us-east4": {
        "g2-standard-8": ("0.850829", "0.340324"),
        "g2-standard-48": ("3.988562", "1.595344"),
        "a2-highgpu": ("3.934355", "1.213232"),
        "a2-ultragpu": ("5.707732", "2.296584"),
        "a3-highgpu": ("11.069470", "4.454880"),
    },
    "europe-west4": {
        "g2-standard-8": ("0.897202", "0.314972"),
        "g2-standard-48": ("4.205950", "1.506832"),
        "a2-highgpu": ("3.747972", "1.445870"),
        "a2-ultragpu": ("5.580918", "1.811055"),
        "a3-highgpu": ("14.067560", "3.969901"),
    },
}
COUNTRIES = {
    "us-central1": "US", "us-east1": "US", "us-west1": "US", "us-east4": "US",
    "europe-west4": "NL",
}  # fmt: skip

_DISK_USD_PER_GIB_MONTH = Decimal("0.11")
"""The dearest of the regions above (balanced disks are 0.10 to 0.11)."""
_HOURS_PER_MONTH = 730
_ADDRESS = Price(Decimal("0.005"), Decimal("0.0025"))


def price_of(machine_type: str, region: str, disk_gib: int) -> Price | None:
    """A whole machine with its disk and public address; `None` where the table does not know."""
    prices = _BY_REGION.get(region, {})
    family, _, size = machine_type.rpartition("-")
    known = prices.get(machine_type) or prices.get(family)
    if known is None or machine_type not in MACHINES:
        return None
    # `a2-highgpu-4g` is four times the price of its family.
    count = int(size.removesuffix("g")) if machine_type not in prices else 1
    disk = _DISK_USD_PER_GIB_MONTH * disk_gib / _HOURS_PER_MONTH
    return Price(
        Decimal(known[0]) * count + disk + _ADDRESS.on_demand,
        Decimal(known[1]) * count + disk + _ADDRESS.spot,
    )
