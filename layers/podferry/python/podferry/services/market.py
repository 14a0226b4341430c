"""What can be rented, over all providers, each asked at most every 30 seconds."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import ClassVar

from podferry.domain.entity import NO_ACCOUNT, Entity
from podferry.domain.errors import CloudError, ConflictError
from podferry.domain.offer import Candidates, Offer, Requirements
from podferry.domain.placement import choose
from podferry.ports.gpu_cloud import CloudTraits, GpuClouds
from podferry.ports.store import Create, Store, Update
from podferry.ports.surroundings import Clock

FRESH = timedelta(seconds=30)
KEEP = timedelta(minutes=10)
KEPT_OFFERS = 300
"""The cheapest of one provider; 400 KiB, the limit of a row, hold about twice as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList(Entity):
    """A provider's answer, kept for the next asker."""

    PREFIX: ClassVar[str] = "prices"

    offers: tuple[Offer, ...]
    expires_at: datetime

    @property
    def forget_at(self) -> datetime | None:
        return self.expires_at


@dataclass(frozen=True, slots=True)
class SilentProvider:
    """A provider that did not answer, and why."""

    name: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Offers that fit, and the providers that are missing from them."""

    candidates: Candidates
    silent: tuple[SilentProvider, ...]


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider that this deployment has a key for."""

    name: str
    traits: CloudTraits


@dataclass(frozen=True, slots=True)
class Market:
    """Look at prices; renting is the workflow's business."""

    clouds: GpuClouds
    store: Store
    clock: Clock

    def providers(self) -> list[Provider]:
        return [Provider(name, self.clouds.get(name).traits) for name in self.clouds.names()]

    def offers(self, wanted: Requirements) -> Listing:
        """Offers that meet the requirements, cheapest first.

        A provider that does not answer is named and does not hide the others' offers.

        Raises:
            CloudError: no provider at all answered.
        """
        offers: list[Offer] = []
        silent: list[SilentProvider] = []
        failure: CloudError | None = None
        names = [n for n in self.clouds.names() if not wanted.providers or n in wanted.providers]
        for name in names:
            try:
                offers += self._offers_of(name, wanted)
            except CloudError as error:
                failure = error
                silent.append(SilentProvider(name, error.code, error.detail))
        if failure is not None and len(silent) == len(names):
            raise failure
        return Listing(choose(offers, wanted, (), self.clock.now()), tuple(silent))

    def _offers_of(self, name: str, wanted: Requirements) -> tuple[Offer, ...]:
        list_id = _list_id(name, wanted)
        kept = self.store.find(PriceList, list_id)
        if kept is not None and self.clock.now() - kept.created_at < FRESH:
            return kept.offers
        offers = self.clouds.get(name).list_offers(wanted)
        offers.sort(key=lambda offer: offer.price_microusd_per_hour)
        self._keep(list_id, tuple(offers[:KEPT_OFFERS]), kept)
        return tuple(offers)

    def _keep(self, list_id: str, offers: tuple[Offer, ...], kept: PriceList | None) -> None:
        now = self.clock.now()
        fresh = PriceList(
            id=list_id,
            account_id=NO_ACCOUNT,
            created_at=now,
            revision=0 if kept is None else kept.revision,
            offers=offers,
            expires_at=now + KEEP,
        )
        try:
            self.store.commit(Create(fresh) if kept is None else Update(fresh))
        except ConflictError:
            # Somebody else asked at the same moment and kept an answer that is as good.
            return


def _list_id(name: str, wanted: Requirements) -> str:
    """Providers may narrow their answer by the requirements, so these are part of the name."""
    return f"{PriceList.PREFIX}_{name}_{sha256(repr(wanted).encode()).hexdigest()[:32]}"
