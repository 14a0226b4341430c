"""Environments as numbered versions, as users keep, see and go back to them."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, model_validator

from podferry.domain.pod import Setup
from podferry.domain.version import Version
from podferry.domain.volume import VersionRef
from podferry.http.models.fields import NO_NUL, Input, Integer, Name, Output, left_alone
from podferry.http.models.variables import SecretRef, shown
from podferry.http.params import ENVIRONMENT_ID_PATTERN, SNAPSHOT_ID_PATTERN
from podferry.services.environments.roll_back import Target

VersionNumber = Annotated[Integer, Field(ge=1, le=999_999)]
Note = Annotated[str, Field(min_length=1, max_length=500, pattern=NO_NUL)]


class VersionRefBody(Input):
    """A version of an environment of the account."""

    id: str = Field(pattern=ENVIRONMENT_ID_PATTERN, description="Of the environment.")
    version: VersionNumber

    def to_ref(self) -> VersionRef:
        return VersionRef(environment_id=self.id, number=self.version)


class VersionRefView(Output):
    """A version that something began as."""

    id: str = Field(description="Of the environment.")
    version: int

    @classmethod
    def of(cls, ref: VersionRef | None) -> "VersionRefView | None":
        return None if ref is None else cls(id=ref.environment_id, version=ref.number)


class KeepBody(Input):
    """What to freeze."""

    note: Note | None = Field(default=None, description="What its user wants to remember of it.")
    snapshot_id: str | None = Field(
        default=None,
        pattern=SNAPSHOT_ID_PATTERN,
        description="A capture of the pod's environment, as `/v1/environments/{id}/captures` lists "
        "them; left out, the newest one, and then the pod has to be stopped.",
    )


class RollbackBody(Input):
    """Where to go back to: one of the two."""

    version: VersionNumber | None = Field(
        default=None, description="A version of the pod's environment."
    )
    snapshot_id: str | None = Field(
        default=None, pattern=SNAPSHOT_ID_PATTERN, description="A capture of the pod's environment."
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> "RollbackBody":
        if (self.version is None) == (self.snapshot_id is None):
            raise ValueError("give either version or snapshot_id")
        return self

    def to_target(self) -> Target:
        return Target(version=self.version, snapshot_id=self.snapshot_id)


class EnvironmentPatch(Input):
    """Changes to an environment; what is left out stays."""

    name: Name = left_alone()


class VersionView(Output):
    """A numbered, frozen state of an environment. It never changes."""

    environment_id: str
    number: int
    snapshot_id: str
    image: str = Field(description="The base image of machines that restore it.")
    image_digest: str | None = Field(
        description="Which image that was exactly; `null` if its registry could not say."
    )
    startup_script: str | None
    environment: dict[str, str | SecretRef] = Field(
        description="Variables of the pod; secrets by their names."
    )
    pod_id: str = Field(description="The pod that it was captured from.")
    note: str | None
    size_bytes: int = Field(description="Of the files in it.")
    captured_at: datetime | None
    kept_at: datetime

    @classmethod
    def of(cls, version: Version) -> "VersionView":
        setup = version.setup or Setup()
        return cls(
            environment_id=version.environment_id,
            number=version.number,
            snapshot_id=version.snapshot_id,
            image=version.image,
            image_digest=None if version.base is None else version.base.digest,
            startup_script=setup.startup_script,
            environment=shown(setup.environment, setup.secrets),
            pod_id=version.pod_id,
            note=version.note,
            size_bytes=version.size_bytes,
            captured_at=version.captured_at,
            kept_at=version.created_at,
        )
