"""Volumes and environments: what a pod is made of when no machine runs it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from podferry.domain.entity import Entity
from podferry.domain.saving import Saving

TRASH = timedelta(days=7)
"""For so long a deleted volume can be taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a fork began with. The save stays where it was made and is kept as long as the fork."""

    volume_id: str
    snapshot_id: str


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
    readers: tuple[str, ...] = ()
    """Pods on machines that work on copies of it; while there are any it is not deleted."""
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
    forked_from: Origin | None = None
    trashed_at: datetime | None = None
    """When its user deleted it; it keeps everything for `TRASH`."""
    purged_at: datetime | None = None
    """When the trash was emptied. The row stays, because pods name it; its data go."""

    @property
    def pins(self) -> frozenset[str]:
        """The saves that it may still be started from, listed or not."""
        origin = None if self.forked_from is None else self.forked_from.snapshot_id
        named = (self.head, self.whole_head, origin)
        return frozenset(one for one in named if one is not None)

    @property
    def gone_from(self) -> datetime | None:
        """Of a deleted one: from when on the garbage collector may empty the trash."""
        return None if self.trashed_at is None else self.trashed_at + TRASH

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
