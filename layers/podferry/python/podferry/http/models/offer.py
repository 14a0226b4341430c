"""Offers and providers, as users see them."""

from pydantic import Field

from podferry.domain.offer import Kind, Market, Offer
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
    billing: BillingView
    reliability: float | None
    cuda_max: str | None

    @classmethod
    def of(cls, offer: Offer) -> "OfferView":
        rule = BillingView(
            increment_seconds=offer.billing.increment_seconds,
            minimum_seconds=offer.billing.minimum_seconds,
        )
        same = cls.model_fields.keys() - {"billing"}
        return cls(**{name: getattr(offer, name) for name in same}, billing=rule)


class SilentProviderView(Output):
    """A provider that did not answer."""

    name: str
    code: str
    detail: str


class OfferPage(Output):
    """Offers that fit, cheapest first."""

    data: tuple[OfferView, ...]
    next_cursor: None = Field(description="Offers come on one page: they change too fast for two.")
    ruled_out: dict[str, int] = Field(
        description="How many offers each requirement ruled out: what to loosen."
    )
    silent_providers: tuple[SilentProviderView, ...] = Field(
        description="Their offers are missing here."
    )

    @classmethod
    def of(cls, listing: Listing, limit: int) -> "OfferPage":
        found = listing.candidates
        return cls(
            data=tuple(OfferView.of(offer) for offer in found.offers[:limit]),
            next_cursor=None,
            ruled_out=found.ruled_out,
            silent_providers=tuple(
                SilentProviderView(name=s.name, code=s.code, detail=s.detail)
                for s in listing.silent
            ),
        )


class ProviderView(Output):
    """A provider that this deployment has a key for."""

    name: str
    boot_deadline_seconds: int = Field(description="How long a machine may take to report.")

    @classmethod
    def of(cls, provider: Provider) -> "ProviderView":
        return cls(name=provider.name, boot_deadline_seconds=provider.traits.boot_deadline_seconds)
