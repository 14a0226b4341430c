"""What can be rented, over all providers, each asked at most every 30 seconds."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import ClassVar

from podferry.domain.entity import NO_ACCOUNT, Entity
from podferry.domain.errors import ConflictError
from podferry.domain.experience import Outlook
from podferry.domain.offer import Candidates, Offer, Requirements
from podferry.domain.placement import choose
from podferry.domain.provider_key import OwnKey
from podferry.ports.gpu_cloud import CloudTraits
from podferry.ports.store import Create, Store, Update
from podferry.ports.surroundings import Clock
from podferry.services.clouds import Clouds, ask_each
from podferry.services.experience import Experiences

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


class Sort(StrEnum):
    """What comes first."""

    EFFECTIVE_PRICE = "effective_price"
    """The cheapest, counting what the planned hours really cost: what a pod would rent."""
    PRICE = "price"
    RELIABILITY = "reliability"
    """The most reliable; offers of providers that publish nothing come last."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Offers that fit, and the providers that are missing from them."""

    candidates: Candidates
    silent: tuple[SilentProvider, ...]
    outlook: Outlook
    """What the effective prices stand on."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider that the account may rent from."""

    name: str
    traits: CloudTraits
    is_own_key: bool
    """Whether with a key of its own; else with the deployment's."""


@dataclass(frozen=True, slots=True)
class Market:
    """Look at prices; renting is the workflow's business."""

    clouds: Clouds
    experiences: Experiences
    store: Store
    clock: Clock

    def providers(self, account_id: str | None) -> list[Provider]:
        """By name; `account_id` is `None` for the operator."""
        return [
            Provider(name, self.clouds.with_key(name, own).traits, own is not None)
            for name, own in self.clouds.open_to(account_id).items()
        ]

    def offers(
        self,
        wanted: Requirements,
        account_id: str | None,
        *,
        sort: Sort = Sort.EFFECTIVE_PRICE,
        planned_hours: int = 1,
    ) -> Listing:
        """Offers that meet the requirements.

        A provider that does not answer is named and does not hide the others' offers.

        Raises:
            CloudError: no provider at all answered.
        """
        answers = ask_each(
            self.clouds.open_to(account_id),
            wanted,
            lambda name, own: self._offers_of(name, own, wanted),
        )
        if not answers.is_any:
            raise list(answers.failures.values())[-1]
        silent = [SilentProvider(n, e.code, e.detail) for n, e in answers.failures.items()]
        outlook = self.experiences.outlook(planned_hours * 3600)
        found = choose(answers.offers, wanted, (), self.clock.now(), outlook)
        ordered = replace(found, offers=_sorted(found.offers, sort))
        return Listing(ordered, tuple(silent), outlook)

    def _offers_of(self, name: str, own: OwnKey | None, wanted: Requirements) -> tuple[Offer, ...]:
        list_id = _list_id(name, own, wanted)
        kept = self.store.find(PriceList, list_id)
        if kept is not None and self.clock.now() - kept.created_at < FRESH:
            return kept.offers
        offers = self.clouds.with_key(name, own).list_offers(wanted)
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


def _sorted(offers: tuple[Offer, ...], sort: Sort) -> tuple[Offer, ...]:
    """Offers that are in the order of their effective prices; equals stay so."""
    match sort:
        case Sort.EFFECTIVE_PRICE:
            return offers
        case Sort.PRICE:
            return tuple(sorted(offers, key=lambda offer: offer.price_microusd_per_hour))
        case Sort.RELIABILITY:
            return tuple(sorted(offers, key=lambda offer: -(offer.reliability or 0.0)))


def _list_id(name: str, own: OwnKey | None, wanted: Requirements) -> str:
    """Providers may narrow their answer by the requirements and by what a key may rent."""
    question = f"{None if own is None else own.version} {wanted!r}"
    return f"{PriceList.PREFIX}_{name}_{sha256(question.encode()).hexdigest()[:32]}"
