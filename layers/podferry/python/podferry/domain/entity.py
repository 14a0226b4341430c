"""What every stored thing has in common."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

NO_ACCOUNT = ""
"""`account_id` of what belongs to the deployment itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A row of state. A change makes a new value; the store writes it if `revision` still holds."""

    PREFIX: ClassVar[str] = ""

    id: str
    account_id: str
    created_at: datetime
    revision: int = 0

    @property
    def owner(self) -> str:
        """What the entity is listed under; lists are in the order of ids."""
        return self.account_id

    @property
    def is_active(self) -> bool:
        """Whether background work has to look at it; the store keeps these in a sparse index."""
        return False

    @property
    def forget_at(self) -> datetime | None:
        """When the store may drop the row by itself."""
        return None
