"""Providers with a fixed price list, for what only looks at the market."""

from podferry.domain.errors import PodferryError, ProviderRefusedError
from podferry.domain.offer import BillingRule, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import LaunchRequest, MachineView
from podferry.ports.key_vault import KeyRef
from tests.contract.entities import cloud_traits

TRAITS = cloud_traits()


class ListedCloud:
    """A `GpuCloud` that lends nothing."""

    traits = TRAITS

    def __init__(
        self, name: str, offers: list[Offer], failure: PodferryError | None = None
    ) -> None:
        self.name = name
        self.offers = offers
        self.failure = failure
        self.asked = 0
        self.machines: list[MachineView] = []

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return list(self.offers)

    def create(self, request: LaunchRequest) -> str:
        raise ProviderRefusedError("this provider lends nothing")

    def find(self, stamp: str) -> list[MachineView]:
        return []

    def list_machines(self) -> list[MachineView]:
        if self.failure is not None:
            raise self.failure
        return list(self.machines)

    def get(self, provider_id: str) -> MachineView:
        raise ProviderRefusedError("this provider has no machines")

    def give_up(self, provider_id: str) -> None:
        return


class ListedClouds:
    """A `GpuClouds` of such providers."""

    def __init__(self, clouds: list[ListedCloud]) -> None:
        self._clouds = {cloud.name: cloud for cloud in clouds}
        self.own: dict[str, ListedCloud] = {}
        """By the name of the provider: what is seen with a key of an account."""
        self.tried: list[str] = []

    def known(self) -> list[str]:
        return sorted({*self._clouds, *self.own, "vastai"})

    def takes_roles(self, name: str) -> bool:
        return name == "ec2"

    def completed(self, _name: str, api_key: str, external_id: str) -> str:
        return api_key.replace("<external id>", external_id)

    def on_trial(self, name: str, api_key: str) -> ListedCloud:
        self.tried.append(api_key)
        return self.own[name]

    def names(self) -> list[str]:
        return sorted(self._clouds)

    def get(self, name: str, key: KeyRef | None = None) -> ListedCloud:
        if key is not None:
            return self.own[key.name]
        if name not in self._clouds:
            raise ProviderRefusedError(f"no key for {name}")
        return self._clouds[name]


def an_offer(provider: str = "vastai", price: int = 250_000, gpu: str = "RTX 4090") -> Offer:
    return Offer(
        provider=provider,
        reference={"id": price},
        host="host-1",
        kind=Kind.CONTAINER,
        market=Market.ON_DEMAND,
        gpu_name=gpu,
        gpu_count=1,
        vram_mib_per_gpu=24564,
        vcpus=8,
        memory_mib=65536,
        disk_gib=100,
        country="DE",
        region=None,
        price_microusd_per_hour=price,
        billing=BillingRule(increment_seconds=1),
    )
