"""The audit log: one event for each change of state, written in the same transaction."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from podferry.domain.entity import Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Entity):
    """Why something is in the state it is in."""

    PREFIX: ClassVar[str] = "evt"

    subject_id: str
    """The pod (or volume, account) that the event is listed under."""
    type: str
    """`<thing>.<what happened>`, for example `pod.running`, `machine.rented`."""
    cause: str
    operation_id: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        return self.subject_id
