"""Shares: one version of an environment that leaves its account, and what was decided about it.

    scanning ─> needs_decision ─> sealing ─> shared ─> revoked
        └──────────────────────────^

Nothing leaves before `shared`: the whole version was scanned, every finding is decided, and the
receipt says what leaves. What is accepted is copied, so a revoked share takes nothing back.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import ClassVar

from podferry.domain.entity import Entity
from podferry.domain.errors import WrongStateError


class ShareState(StrEnum):
    SCANNING = "scanning"
    NEEDS_DECISION = "needs_decision"
    SEALING = "sealing"
    SHARED = "shared"
    FAILED = "failed"
    REVOKED = "revoked"


_MOVES = {
    ShareState.SCANNING: {ShareState.NEEDS_DECISION, ShareState.SEALING, ShareState.FAILED},
    ShareState.NEEDS_DECISION: {ShareState.SEALING},
    ShareState.SEALING: {ShareState.SHARED, ShareState.FAILED},
}


class Decision(StrEnum):
    """What the owner says of a finding."""

    EXCLUDE = "exclude"
    """The file does not travel."""
    ACCEPT = "accept"
    """It travels as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Where in a file, and by which rule; never what stands there."""

    line: int
    """From 1; 0 if the file has no lines: it is binary, or was not looked into."""
    rule: str
    kind: str
    """`token`, `key`, `url`, `assignment`, `password_hash` or `not_scanned`."""
    member: str | None = None
    """Of an archive: the name in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Entity):
    """A file that the scan has something against; one that is not decided blocks the share."""

    PREFIX: ClassVar[str] = "find"

    share_id: str
    path: str
    """Of the pod, printable, as a manifest shows paths."""
    size: int
    hits: tuple[Hit, ...]
    """At most `MOST_HITS` of them."""
    decision: Decision | None = None

    @property
    def owner(self) -> str:
        return self.share_id


MOST_HITS = 20


def finding_id(share_id: str, path: str) -> str:
    """Made of the path, so that a scan that is repeated finds what it wrote."""
    return f"{Finding.PREFIX}_{share_id.partition('_')[2]}-{sha256(path.encode()).hexdigest()[:24]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What leaves, as it was sealed. Every copy is compared with it before it can be used."""

    sealed_at: datetime
    entries: int
    files: int
    bytes: int
    excluded: dict[str, int]
    """By reason: how many names stay behind."""
    excluded_bytes: int
    accepted: tuple[str, ...]
    """Paths with findings that their owner let go, the first `MOST_NAMED` of them."""
    accepted_files: int
    manifest_sha256: str
    """Over all that leaves: names, metadata and contents, in their order."""


MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Entity):
    """See the module."""

    PREFIX: ClassVar[str] = "share"

    environment_id: str
    version: int
    snapshot_id: str
    image: str
    pod_id: str
    """Of the version: its operations are listed under it."""
    state: ShareState = ShareState.SCANNING
    accounts: tuple[str, ...] = ()
    """Who may accept it by name."""
    token_sha256: str | None = None
    """Of the link's secret, if there is a link."""
    expires_at: datetime | None = None
    operation_id: str
    """The newest operation of its own: scan and seal."""
    findings: int = 0
    undecided: int = 0
    accepts: int = 0
    receipt: Receipt | None = None
    revoked_at: datetime | None = None

    def require_open(self, now: datetime) -> None:
        """Raise unless it may be accepted at this moment.

        Raises:
            WrongStateError: it is not ready, was revoked or has expired.
        """
        if self.state != ShareState.SHARED or self.receipt is None:
            raise WrongStateError(f"share {self.id} is {self.state}; nobody can accept it")
        if self.expires_at is not None and now >= self.expires_at:
            raise WrongStateError(f"share {self.id} has expired; ask its owner for another one")


def check_move(share: Share, to: ShareState) -> None:
    """Raises: WrongStateError."""
    if to not in _MOVES.get(share.state, set()):
        raise WrongStateError(f"share {share.id} is {share.state}; it cannot become {to}")
