"""Environments, volumes and their frozen states, as users see them."""

from datetime import datetime
from typing import Any

from pydantic import Field

from podferry.domain.snapshot import Snapshot
from podferry.domain.volume import Environment, Volume
from podferry.http.models.fields import Output


class EnvironmentView(Output):
    """Everything outside /workspace of one pod."""

    id: str
    name: str
    image: str
    head: str | None = Field(description="The newest capture.")
    captured_at: datetime | None
    size_bytes: int
    created_at: datetime
    revision: int

    @classmethod
    def of(cls, environment: Environment) -> "EnvironmentView":
        return cls(**{name: getattr(environment, name) for name in cls.model_fields})


class VolumeView(Output):
    """A tree at /workspace; one machine writes it at a time."""

    id: str
    name: str
    head: str | None = Field(description="The newest save.")
    saved_at: datetime | None
    age_seconds: float | None = Field(description="Of the newest save.")
    size_bytes: int
    in_use_by: str | None = Field(description="The pod whose machine may write it.")
    created_at: datetime
    revision: int

    @classmethod
    def of(cls, volume: Volume, now: datetime) -> "VolumeView":
        saved_at = volume.saved_at
        return cls(
            id=volume.id,
            name=volume.name,
            head=volume.head,
            saved_at=saved_at,
            age_seconds=None if saved_at is None else (now - saved_at).total_seconds(),
            size_bytes=volume.size_bytes,
            in_use_by=None if volume.lease is None else volume.lease.pod_id,
            created_at=volume.created_at,
            revision=volume.revision,
        )


class SnapshotView(Output):
    """A committed state of an environment or a volume."""

    id: str
    parent_id: str | None
    pod_id: str
    machine_id: str
    operation_id: str
    committed_at: datetime | None
    root_sha256: str | None
    summary: dict[str, Any] = Field(description="What the capture counted and warned of.")

    @classmethod
    def of(cls, snapshot: Snapshot) -> "SnapshotView":
        root = snapshot.root
        return cls(
            id=snapshot.id,
            parent_id=snapshot.parent_id,
            pod_id=snapshot.pod_id,
            machine_id=snapshot.machine_id,
            operation_id=snapshot.operation_id,
            committed_at=snapshot.committed_at,
            root_sha256=None if root is None else root.sha256,
            summary=snapshot.summary,
        )
