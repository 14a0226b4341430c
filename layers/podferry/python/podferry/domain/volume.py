"""Volumes and environments: what a pod is made of when no machine runs it."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from podferry.domain.entity import Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right of one machine to move a volume's head."""

    pod_id: str
    machine_id: str | None
    """`None` between taking the lease and renting the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume(Entity):
    """The tree at `/workspace`. Its states are saves; one machine writes it at a time."""

    PREFIX: ClassVar[str] = "vol"

    name: str
    epoch: int = 0
    """Counts the machines that were ever given the lease; a stale one cannot move the head."""
    lease: Lease | None = None
    head: str | None = None
    """Snapshot id of the newest save."""
    saved_at: datetime | None = None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment(Entity):
    """Everything outside `/workspace` of one pod."""

    PREFIX: ClassVar[str] = "env"

    name: str
    image: str
    head: str | None = None
    """Snapshot id of the newest capture."""
    captured_at: datetime | None = None
    size_bytes: int = 0
