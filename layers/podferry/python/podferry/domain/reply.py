"""What an Idempotency-Key stands for."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from podferry.domain.entity import Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Entity):
    """What an Idempotency-Key stands for: written in the same transaction as the effect."""

    PREFIX: ClassVar[str] = "idem"

    request_sha256: str
    status: int | None = None
    """`None` while the first request is still at work, or when it died after its effect."""
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    expires_at: datetime | None = None

    @property
    def forget_at(self) -> datetime | None:
        return self.expires_at
