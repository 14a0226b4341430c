"""Volumes and environments: what a pod is made of when no machine runs it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from podferry.domain.entity import Entity
from podferry.domain.saving import Saving


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
    whole_head: str | None = None
    """If the head is a partial save, the newest one that is whole."""
    saved_at: datetime | None = None
    """The head has everything that was written before this moment."""
    size_bytes: int = 0
    saving: Saving = field(default_factory=Saving)
    thinned_at: datetime | None = None
    """When its older saves were last looked through."""

    def saving_by(self, epoch: int) -> Saving:
        """How the saves of this epoch's machine go."""
        return self.saving if self.saving.epoch == epoch else Saving(epoch=epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRef:
    """A version of an environment, by its number."""

    environment_id: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment(Entity):
    """Everything outside `/workspace` of one pod."""

    PREFIX: ClassVar[str] = "env"

    name: str
    image: str
    head: str | None = None
    """Snapshot id of its working state: the newest capture, or what it was rolled back to."""
    captured_at: datetime | None = None
    size_bytes: int = 0
    versions: int = 0
    """How many there are: the number of the newest one (`domain/version.py`)."""
    made_from: VersionRef | None = None
    """The version that it began as; `None` if it began as its image."""
    deleted_at: datetime | None = None
    """Nobody is shown it any more, and nothing of it is kept for its sake."""
