"""Volumes, as users see and change them."""

from datetime import datetime

from pydantic import Field

from podferry.domain.pod import Pod
from podferry.domain.use_of_volume import Attachment
from podferry.domain.volume import Volume
from podferry.http.models.fields import Flag, Input, Name, Output
from podferry.http.params import SNAPSHOT_ID_PATTERN, VOLUME_ID_PATTERN


class OriginView(Output):
    """What a fork began with."""

    volume_id: str
    snapshot_id: str = Field(description="It can go back to it as long as it exists.")


class VolumeView(Output):
    """A tree at /workspace; one machine writes it at a time."""

    id: str
    name: str
    head: str | None = Field(description="The save that the next start restores.")
    whole_head: str | None = Field(
        description="If the head is a partial save, the newest whole one."
    )
    saved_at: datetime | None = Field(
        description="What was written before is in the head: when the last whole save began."
    )
    age_seconds: float | None = Field(description="Of the head.")
    size_bytes: int
    stored_bytes: int = Field(
        description="Of the store, what this volume answers for: what its saves added, and what it "
        "alone still needs of others. Each byte is counted with one volume."
    )
    in_use_by: str | None = Field(description="The pod whose machine may write it.")
    read_by: tuple[str, ...] = Field(description="The pods that work on copies of it.")
    forked_from: OriginView | None
    deleted_at: datetime | None = Field(description="Of one in the trash.")
    gone_from: datetime | None = Field(
        description="Of one in the trash: until then it can be taken back."
    )
    created_at: datetime
    revision: int

    @classmethod
    def of(cls, volume: Volume, now: datetime, stored_bytes: int) -> "VolumeView":
        saved_at, origin = volume.saved_at, volume.forked_from
        made = {"age_seconds", "stored_bytes", "in_use_by", "read_by", "forked_from", "deleted_at"}
        return cls(
            **{name: getattr(volume, name) for name in cls.model_fields.keys() - made},
            age_seconds=None if saved_at is None else (now - saved_at).total_seconds(),
            stored_bytes=stored_bytes,
            in_use_by=None if volume.lease is None else volume.lease.pod_id,
            read_by=volume.readers,
            forked_from=None
            if origin is None
            else OriginView(volume_id=origin.volume_id, snapshot_id=origin.snapshot_id),
            deleted_at=volume.trashed_at,
        )


class AttachmentBody(Input):
    """A volume for a pod. Many pods may name one; one of them at a time writes it."""

    id: str = Field(pattern=VOLUME_ID_PATTERN)
    read_only: Flag = Field(
        default=False,
        description="Restore the head of the moment of each start into a copy of the pod's own: "
        "it can be written, but is never saved, and a stop captures the environment alone.",
    )


def to_attachment(body: AttachmentBody | None) -> Attachment | None:
    return None if body is None else Attachment(volume_id=body.id, is_reader=body.read_only)


class VolumePart(Output):
    """The tree at /workspace."""

    id: str
    head: str | None = Field(description="The newest save.")
    saved_at: datetime | None
    age_seconds: float | None = Field(description="Of the newest save.")
    size_bytes: int
    read_only: bool = Field(
        description="The pod works on a copy of the volume's head; what it writes is not saved."
    )

    @classmethod
    def of(cls, volume: Volume, pod: Pod, now: datetime) -> "VolumePart":
        age = None if volume.saved_at is None else (now - volume.saved_at).total_seconds()
        return cls(
            id=volume.id,
            head=volume.head,
            saved_at=volume.saved_at,
            age_seconds=age,
            size_bytes=volume.size_bytes,
            read_only=pod.is_reader,
        )


class VolumePatch(Input):
    """Changes to a volume."""

    name: Name


class RestoreBody(Input):
    """Where to go back to."""

    snapshot_id: str = Field(
        pattern=SNAPSHOT_ID_PATTERN,
        description="A save of the volume's list, or the one that it was forked from.",
    )


class ForkBody(Input):
    """What to go on from, in a volume of its own."""

    snapshot_id: str | None = Field(
        default=None,
        pattern=SNAPSHOT_ID_PATTERN,
        description="A save of the volume; left out, its head.",
    )
    name: Name | None = Field(default=None, description="Left out, that of the volume.")
