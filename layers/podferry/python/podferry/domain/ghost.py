"""A machine at a provider that carries our stamp and that we know nothing of."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from podferry.domain.entity import Entity
from podferry.domain.offer import BillingRule

OLD_ENOUGH = timedelta(minutes=2)
"""Between the first listing that shows it and the one after which it is given up."""

_BY_THE_SECOND = BillingRule(increment_seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ghost(Entity):
    """Kept while the machine stands. It has no account: nobody asked for it.

    `id` is made of the provider's name and its id for the machine; `created_at` is when it was
    first seen.
    """

    PREFIX: ClassVar[str] = "ghost"

    provider: str
    provider_id: str
    stamp: str
    key_of: str | None = None
    """The account under whose key it is listed; `None` is the deployment's."""
    missing_since: datetime | None = None
    """First complete listing in a row that did not."""
    billing: BillingRule = _BY_THE_SECOND
    price_microusd_per_hour: int | None = None
    """`None` if its provider does not say what it costs."""
    billing_started_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        return True

    @property
    def billed_from(self) -> datetime:
        """When its bill began by its provider; of one that does not say so, when it was seen."""
        return self.billing_started_at or self.created_at

    def may_be_given_up(self, now: datetime) -> bool:
        """Never at first sight: its row may just not be listed yet."""
        return now - self.created_at >= OLD_ENOUGH


def ghost_id(provider: str, provider_id: str) -> str:
    """The one id for a machine, whoever sees it."""
    return f"ghost_{provider}_{provider_id}"
