"""Two providers with switches for what providers get wrong."""

from dataclasses import replace
from typing import TYPE_CHECKING

from box import Box

from podferry.domain.errors import (
    OutcomeUnknownError,
    PodferryError,
    ProviderBusyError,
    ProviderRefusedError,
)
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import BootTraits, LaunchRequest, MachineView, ViewState
from podferry.ports.key_vault import KeyRef
from tests.contract.entities import cloud_traits

if TYPE_CHECKING:
    from world import World


class FakeCloud:
    """A provider with switches for what providers get wrong. Counts every create call."""

    box_class = Box

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self.traits = cloud_traits(poll_seconds=2, listing_settles_seconds=20)
        self.id_prefix = f"{name}-"
        self.boxes: dict[str, Box] = {}
        self.creates = 0
        self.create_fails_but_exists = 0
        self.create_fails_and_nothing_exists = 0
        self.create_raises: list[PodferryError] = []
        self.delete_fails = 0
        self.delete_says_ok_but_stands = 0
        self.boot_never = 0
        self.listing_fails = 0
        self.is_bare = False
        """Its machines have to be logged in to."""
        self.is_down = False
        """It answers no question about a machine."""
        self.price = 400_000 if name == "alpha" else 500_000
        self.has_stock = True
        self.listing_lag_seconds = 0
        """For how long a new machine is not shown."""
        self.twins = 0
        """How many creates make two machines with one stamp."""
        self.words: dict[str, tuple[ViewState, str]] = {}
        """What it says of a machine, whatever is true."""
        self._world = world

    def rents_bare(self, deadline_seconds: int = 600) -> None:
        """From now on it lends virtual machines with nothing but an SSH server."""
        self.is_bare = True
        boot = BootTraits(
            channel=Channel.SSH, bootstrap_limit=4096, deadline_seconds=deadline_seconds
        )
        self.traits = replace(self.traits, boots={**self.traits.boots, Kind.VM: boot})

    def list_offers(self, _wanted: Requirements) -> list[Offer]:
        if not self.has_stock:
            return []
        return [
            Offer(
                provider=self.name,
                reference={"ask": number},
                host=f"host-{number}",
                kind=Kind.VM if self.is_bare else Kind.CONTAINER,
                channel=Channel.SSH if self.is_bare else Channel.ENTRYPOINT,
                market=Market.ON_DEMAND,
                gpu_name="RTX 4090",
                gpu_count=1,
                vram_mib_per_gpu=24564,
                vcpus=16,
                memory_mib=65536,
                disk_gib=200,
                country="SE",
                region=None,
                price_microusd_per_hour=self.price + number,
                billing=BillingRule(increment_seconds=1),
            )
            for number in (1, 2)
        ]

    def create(self, request: LaunchRequest) -> str:
        self.creates += 1
        if self.create_raises:
            raise self.create_raises.pop()
        if self.create_fails_and_nothing_exists:
            self.create_fails_and_nothing_exists -= 1
            raise OutcomeUnknownError("500")
        box = self.box_class(self._world, self, request, f"{self.id_prefix}{self.creates}")
        self.boxes[box.provider_id] = box
        if self.twins:
            self.twins -= 1
            twin = self.box_class(self._world, self, request, f"{box.provider_id}-twin")
            twin.is_dead = True
            self.boxes[twin.provider_id] = twin
        if self.boot_never:
            self.boot_never -= 1
            box.is_dead = True
        if self.create_fails_but_exists:
            self.create_fails_but_exists -= 1
            raise OutcomeUnknownError("500")
        return box.provider_id

    def find(self, stamp: str) -> list[MachineView]:
        return [view for view in self.list_machines() if view.stamp == stamp]

    def list_machines(self) -> list[MachineView]:
        if self.listing_fails:
            self.listing_fails -= 1
            raise ProviderBusyError("500")
        views = [self.get(box.provider_id) for box in self.standing()]
        return [view for view in views if view.state != ViewState.GONE]

    def get(self, provider_id: str) -> MachineView:
        if self.is_down:
            raise ProviderBusyError("500")
        box = self.boxes[provider_id]
        is_missing = box.is_gone and provider_id not in self.words
        if is_missing or self._is_hidden(box):
            return MachineView(
                provider_id=provider_id, stamp=None, state=ViewState.GONE, raw_status="not_found"
            )
        state, raw_status = self.words.get(provider_id, (ViewState.STARTING, "running"))
        stamp = None if raw_status == "not_found" else box.request.stamp
        return replace(box.view(), stamp=stamp, state=state, raw_status=raw_status)

    def give_up(self, provider_id: str) -> None:
        if self.delete_fails:
            self.delete_fails -= 1
            raise ProviderBusyError("500")
        if self.delete_says_ok_but_stands:
            self.delete_says_ok_but_stands -= 1
            return
        if not self._is_hidden(self.boxes[provider_id]):
            self.boxes[provider_id].is_gone = True

    def _is_hidden(self, box: "Box") -> bool:
        return self._world.seconds - box.made_at < self.listing_lag_seconds

    def standing(self) -> list["Box"]:
        return [box for box in self.boxes.values() if not box.is_gone]


class FakeClouds:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._clouds = {name: world.cloud_class(world, name) for name in ("alpha", "beta")}
        self.own: dict[tuple[str, str], FakeCloud] = {}
        """By name and key: what is seen with a key of an account."""

    def known(self) -> list[str]:
        return sorted(self._clouds)

    def names(self) -> list[str]:
        return sorted(self._clouds)

    def takes_roles(self, _name: str) -> bool:
        return False

    def completed(self, _name: str, api_key: str, _external_id: str) -> str:
        return api_key

    def on_trial(self, name: str, api_key: str) -> FakeCloud:
        return self.own[name, api_key]

    def every(self) -> list[FakeCloud]:
        return [*self._clouds.values(), *self.own.values()]

    def add(self, cloud: FakeCloud) -> None:
        self._clouds[cloud.name] = cloud

    def get(self, name: str, key: KeyRef | None = None) -> FakeCloud:
        if key is not None:
            return self.own[name, self._world.key_vault.texts[key]]
        if name not in self._clouds:
            raise ProviderRefusedError(f"no provider {name}")
        return self._clouds[name]
