"""Environments, and frozen states of them and of volumes, as users see them."""

from datetime import datetime
from typing import Any

from pydantic import Field

from podferry.domain.floor import MadeOn
from podferry.domain.proof import ProofMode
from podferry.domain.saving import SaveKind
from podferry.domain.snapshot import Snapshot
from podferry.domain.volume import Environment
from podferry.http.models.environment import VersionRefView
from podferry.http.models.fields import Input, Output


class EnvironmentView(Output):
    """Everything outside /workspace of one pod."""

    id: str
    name: str
    image: str
    head: str | None = Field(
        description="Its working state: the newest capture, or what it was taken back to."
    )
    captured_at: datetime | None
    size_bytes: int
    stored_bytes: int = Field(
        description="Of the store, what this environment answers for: what its captures added, and "
        "what it alone still needs of others. Each byte is counted with one environment."
    )
    versions: int = Field(description="How many versions it has; they are numbered from 1.")
    made_from: VersionRefView | None = Field(description="The version that it began as, if any.")
    created_at: datetime
    revision: int

    @classmethod
    def of(cls, environment: Environment, stored_bytes: int) -> "EnvironmentView":
        made = {"made_from", "stored_bytes"}
        return cls(
            **{name: getattr(environment, name) for name in cls.model_fields.keys() - made},
            made_from=VersionRefView.of(environment.made_from),
            stored_bytes=stored_bytes,
        )


class VerifyBody(Input):
    """How much of it to read."""

    mode: ProofMode = Field(
        default=ProofMode.SAMPLE,
        description="All objects are looked up, with size and checksum. `sample` reads and hashes "
        "64 of them, other ones each time; `full` all, which takes about a minute for each 5 GB.",
    )


class ProofView(Output):
    """What a verification has seen."""

    mode: ProofMode
    objects: int = Field(description="Looked up: there, with the recorded size and checksum.")
    objects_read: int
    bytes_read: int = Field(description="Read, and hashed to what was recorded.")


class MadeOnView(Output):
    """The system that an environment was captured on: what it needs of other machines."""

    arch: str
    cuda: str | None = Field(
        description="Newest CUDA of the driver; drivers of an older major version do not fit."
    )
    driver: str | None

    @classmethod
    def of(cls, origin: MadeOn) -> "MadeOnView":
        return cls(arch=origin.arch, cuda=origin.cuda, driver=origin.driver)


class SnapshotView(Output):
    """A committed state of an environment or a volume."""

    id: str
    parent_id: str | None
    pod_id: str
    machine_id: str
    operation_id: str | None = Field(description="`null` if no operation asked for it.")
    committed_at: datetime | None
    root_sha256: str | None
    summary: dict[str, Any] = Field(description="What the capture counted and warned of.")
    made_on: MadeOnView | None = Field(description="Of an environment.")
    version: int | None = Field(description="Of an environment, if the capture is a version.")
    last_proven_at: datetime | None = Field(description="Last proven restorable.")
    last_proof: ProofView | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> "SnapshotView":
        root, proof = snapshot.root, snapshot.proof
        return cls(
            id=snapshot.id,
            parent_id=snapshot.parent_id,
            pod_id=snapshot.pod_id,
            machine_id=snapshot.machine_id,
            operation_id=snapshot.operation_id,
            made_on=None if snapshot.made_on is None else MadeOnView.of(snapshot.made_on),
            version=snapshot.version,
            committed_at=snapshot.committed_at,
            root_sha256=None if root is None else root.sha256,
            summary=snapshot.summary,
            last_proven_at=None if proof is None else proof.at,
            last_proof=None
            if proof is None
            else ProofView(**{name: getattr(proof, name) for name in ProofView.model_fields}),
        )


class SaveView(SnapshotView):
    """A state of a volume."""

    kind: SaveKind
    label: str | None
    began_at: datetime = Field(description="It has everything that was written before.")
    size_bytes: int
    files: int
    stored_bytes: int = Field(description="What it added to the store.")
    torn: tuple[str, ...] = Field(
        description="Files that changed while they were read, three times over; up to 100."
    )
    is_partial: bool = Field(
        description="Its machine went before it had everything. It can be restored; files that "
        "were not reached are as in the save before, new ones are not in it."
    )
    unreached: tuple[str, ...] = Field(description="Those files; up to 100.")
    unreached_files: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> "SaveView":
        return cls(
            **dict(SnapshotView.of(snapshot)),
            kind=snapshot.save_kind,
            label=snapshot.label,
            began_at=snapshot.created_at,
            size_bytes=snapshot.size_bytes,
            files=int(snapshot.summary.get("files", 0)),
            stored_bytes=int(snapshot.summary.get("stored_bytes", 0)),
            torn=tuple(snapshot.summary.get("torn", ())),
            is_partial=snapshot.is_partial,
            unreached=tuple(snapshot.summary.get("unreached", ())),
            unreached_files=int(snapshot.summary.get("unreached_files", 0)),
        )
