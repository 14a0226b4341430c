"""Offers and providers, as users see them."""

from typing import Any

from pydantic import Field

from podferry.domain.experience import Outlook
from podferry.domain.offer import Channel, Kind, Market, NearMiss, Offer
from podferry.domain.placement import effective_microusd, effective_microusd_per_hour
from podferry.http.models.fields import Output
from podferry.services.market import Listing, Provider


class BillingView(Output):
    """How the provider turns time into money: in started increments, at least the minimum."""

    increment_seconds: int
    minimum_seconds: int


class OfferView(Output):
    """Something that can be rented."""

    id: str
    provider: str
    kind: Kind
    market: Market
    gpu_name: str | None
    gpu_count: int
    vram_mib_per_gpu: int | None
    vcpus: float | None
    memory_mib: int | None
    disk_gib: int
    country: str | None
    region: str | None
    price_microusd_per_hour: int
    effective_microusd: int = Field(
        description=(
            "What the planned hours are expected to cost in all: the provider's billing rule on "
            "boot, restore and run, and what losing the machine costs, as often as that happens."
        )
    )
    effective_microusd_per_hour: int = Field(description="The same for each planned hour.")
    expected_boot_seconds: int = Field(
        description="From the request until the agent reports; measured on our own machines."
    )
    expected_restore_seconds: int = Field(description="From there until a pod runs.")
    expected_losses_per_hour: float = Field(
        description="How often such a machine is taken away unasked."
    )
    billing: BillingView
    reliability: float | None
    reclaim_notice_seconds: int | None
    cuda_max: str | None
    arch: str
    channel: Channel = Field(description="How our agent gets onto the machine.")

    @classmethod
    def of(cls, offer: Offer, outlook: Outlook) -> "OfferView":
        rule = BillingView(
            increment_seconds=offer.billing.increment_seconds,
            minimum_seconds=offer.billing.minimum_seconds,
        )
        expected = outlook.of(offer)
        made: dict[str, Any] = {
            "billing": rule,
            "effective_microusd": effective_microusd(offer, outlook),
            "effective_microusd_per_hour": effective_microusd_per_hour(offer, outlook),
            "expected_boot_seconds": expected.boot_seconds,
            "expected_restore_seconds": expected.restore_seconds,
            "expected_losses_per_hour": round(expected.losses_per_hour, 6),
        }
        same = cls.model_fields.keys() - made.keys()
        return cls(**{name: getattr(offer, name) for name in same}, **made)


class NearMissView(Output):
    """An offer that would fit if the requirements named were loosened."""

    offer_id: str
    provider: str
    gpu_name: str | None
    gpu_count: int
    price_microusd_per_hour: int
    loosen: tuple[str, ...]

    @classmethod
    def of(cls, miss: NearMiss) -> "NearMissView":
        offer = miss.offer
        same = ("provider", "gpu_name", "gpu_count", "price_microusd_per_hour")
        values = {name: getattr(offer, name) for name in same}
        return cls(offer_id=offer.id, loosen=miss.loosen, **values)


class SilentProviderView(Output):
    """A provider that did not answer."""

    name: str
    code: str
    detail: str


class OfferPage(Output):
    """Offers that fit, in the order that was asked for."""

    data: tuple[OfferView, ...]
    next_cursor: None = Field(description="Offers come on one page: they change too fast for two.")
    ruled_out: dict[str, int] = Field(
        description="How many offers each requirement ruled out: what to loosen."
    )
    nearest: tuple[NearMissView, ...] = Field(
        description="If nothing fits: the offers that miss the fewest requirements."
    )
    silent_providers: tuple[SilentProviderView, ...] = Field(
        description="Their offers are missing here."
    )

    @classmethod
    def of(cls, listing: Listing, limit: int) -> "OfferPage":
        found = listing.candidates
        return cls(
            data=tuple(OfferView.of(offer, listing.outlook) for offer in found.offers[:limit]),
            next_cursor=None,
            ruled_out=found.ruled_out,
            nearest=tuple(NearMissView.of(miss) for miss in found.nearest),
            silent_providers=tuple(
                SilentProviderView(name=s.name, code=s.code, detail=s.detail)
                for s in listing.silent
            ),
        )


class ProviderView(Output):
    """A provider that the account may rent from."""

    name: str
    is_own_key: bool = Field(description="With a key of its own, or with the deployment's.")
    boot_deadline_seconds: int = Field(
        description="How long a machine of its slowest kind may take to report."
    )

    @classmethod
    def of(cls, provider: Provider) -> "ProviderView":
        return cls(
            name=provider.name,
            is_own_key=provider.is_own_key,
            boot_deadline_seconds=provider.traits.longest_boot_seconds,
        )
