"""A machine at a provider that carries our stamp and that we know nothing of."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from podferry.domain.entity import Entity

OLD_ENOUGH = timedelta(minutes=2)
"""Between the first listing that shows it and the one after which it is given up."""


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

    @property
    def is_active(self) -> bool:
        return True

    def may_be_given_up(self, now: datetime) -> bool:
        """Never at first sight: its row may just not be listed yet."""
        return now - self.created_at >= OLD_ENOUGH


def ghost_id(provider: str, provider_id: str) -> str:
    """The one id for a machine, whoever sees it."""
    return f"ghost_{provider}_{provider_id}"
