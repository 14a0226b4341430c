"""Where a pod can be told to go: a provider, and what to rent there if it has several kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_SEPARATOR = ":"


@dataclass(frozen=True, slots=True)
class Place:
    """Written as `vastai` or `fluence:vm`."""

    provider: str
    kind: str | None = None
    """`None` takes whatever is cheapest."""

    @classmethod
    def of(cls, text: str) -> Place:
        provider, _, kind = text.strip().partition(_SEPARATOR)
        return cls(provider, kind or None)

    def __str__(self) -> str:
        return self.provider if self.kind is None else f"{self.provider}{_SEPARATOR}{self.kind}"

    @property
    def requirements(self) -> dict[str, Any]:
        """Of a pod that has to run here."""
        kinds = [] if self.kind is None else [self.kind]
        return {"providers": [self.provider], "kinds": kinds, "gpu_count": 1}
