"""A `GpuCloud` around another one, for those that do something with each of its calls."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from podferry.domain.offer import Offer, Requirements
from podferry.ports.gpu_cloud import CloudTraits, GpuCloud, LaunchRequest, MachineView

T = TypeVar("T")


class WrappedCloud(ABC):
    """Hands every call on; a subclass says in `_around` what happens before and after it."""

    def __init__(self, inner: GpuCloud) -> None:
        self._inner = inner
        self.name: str = inner.name
        self.traits: CloudTraits = inner.traits

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        return self._around("list_offers", lambda: self._inner.list_offers(wanted))

    def create(self, request: LaunchRequest) -> str:
        return self._around("create", lambda: self._inner.create(request))

    def find(self, stamp: str) -> list[MachineView]:
        return self._around("find", lambda: self._inner.find(stamp))

    def list_machines(self) -> list[MachineView]:
        return self._around("list_machines", self._inner.list_machines)

    def get(self, provider_id: str) -> MachineView:
        return self._around("get", lambda: self._inner.get(provider_id))

    def give_up(self, provider_id: str) -> None:
        return self._around("give_up", lambda: self._inner.give_up(provider_id))

    @abstractmethod
    def _around(self, call_name: str, call: Callable[[], T]) -> T:
        """What the wrapper does around each call."""
