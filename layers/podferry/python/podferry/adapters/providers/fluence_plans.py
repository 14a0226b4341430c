"""Parts of Fluence's catalogue that containers, virtual machines and bare metal have in common."""

from decimal import Decimal

from podferry.adapters.providers.units import bytes_of
from podferry.adapters.providers.wire import WireModel


class Quantity(WireModel):
    count: Decimal
    units: str = ""


class GpuModel(WireModel):
    model: str
    vram: str | None = None
    interface: str | None = None


class Pricing(WireModel):
    hour: Decimal
    currency: str = "USD"


def bytes_in(quantity: Quantity | None) -> int | None:
    return None if quantity is None else bytes_of(quantity.count, quantity.units)


def whole(size: int | None, unit: int) -> int | None:
    """`size` in whole units."""
    return None if size is None else size // unit
