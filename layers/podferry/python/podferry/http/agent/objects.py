"""URLs for objects, the hand-in of a capture, the output of commands."""

from typing import Annotated, Literal

from pydantic import Field

from podferry.domain.snapshot import StoredObject
from podferry.http.agent.fields import AgentInput, Count, Measure, Sha256, SnapshotId, Texts
from podferry.http.models.command import Base64
from podferry.http.models.fields import Output
from podferry.services.agent.objects import WantedObject
from podferry.services.agent.output import Chunk

OBJECTS = 100
CHUNKS = 16
ObjectName = Annotated[str, Field(min_length=1, max_length=128)]


class ObjectBody(AgentInput):
    """An object as the agent made it."""

    name: ObjectName
    size: Count
    sha256: Sha256

    def to_object(self) -> StoredObject:
        return StoredObject(name=self.name, size=self.size, sha256=self.sha256)


class UploadsBody(AgentInput):
    """Objects that the agent wants to store."""

    snapshot_id: SnapshotId
    attempt_id: SnapshotId
    objects: Annotated[tuple[ObjectBody, ...], Field(min_length=1, max_length=OBJECTS)]

    def to_objects(self) -> list[StoredObject]:
        return [item.to_object() for item in self.objects]


class Upload(Output):
    """PUT the object to the URL with exactly these headers."""

    name: str
    url: str
    headers: dict[str, str]


class UploadsReply(Output):
    """One for each object, in the same order."""

    uploads: tuple[Upload, ...]


class WantedBody(AgentInput):
    """An object, and the snapshot that it lies in."""

    snapshot_id: SnapshotId
    name: ObjectName


class DownloadsBody(AgentInput):
    """Objects that the agent wants to read for a snapshot."""

    snapshot_id: SnapshotId
    objects: Annotated[tuple[WantedBody, ...], Field(min_length=1, max_length=OBJECTS)]

    def to_wanted(self) -> list[WantedObject]:
        return [WantedObject(item.snapshot_id, item.name) for item in self.objects]


class Download(Output):
    """GET the object from the URL, whole or by range."""

    snapshot_id: str
    name: str
    url: str


class DownloadsReply(Output):
    """One for each object, in the same order."""

    downloads: tuple[Download, ...]


class Summary(AgentInput):
    """What a capture counted and warned of."""

    files: Count
    directories: Count
    entries: Count
    bytes: Count
    new_bytes: Count
    stored_bytes: Count
    packs: Count
    torn: Texts = ()
    is_partial: bool = False
    unreached: Texts = ()
    unreached_files: Count = 0
    unreadable: Texts = ()
    warnings: Texts = ()
    duration_seconds: Measure


class CommitBody(AgentInput):
    """A finished capture."""

    snapshot_id: SnapshotId
    attempt_id: SnapshotId
    root: ObjectBody
    summary: Summary


class CommitReply(Output):
    """Whether that was all; if not, hand the same in again: its verification goes on."""

    is_settled: bool


class ChunkBody(AgentInput):
    """A piece of what a command wrote."""

    sequence: Annotated[Count, Field(le=99_999_999)]
    stream: Literal["stdout", "stderr"]
    data: Base64

    def to_chunk(self) -> Chunk:
        return Chunk(sequence=self.sequence, stream=self.stream, data=self.data)


class OutputBody(AgentInput):
    """What a command wrote."""

    command_id: Annotated[str, Field(min_length=1, max_length=128)]
    chunks: Annotated[tuple[ChunkBody, ...], Field(max_length=CHUNKS)]


class Taken(Output):
    """It has arrived."""
