"""Versions: the numbered, frozen states of an environment.

A version names one committed capture and never changes. The numbers of an environment go from 1
up without a gap: the next one is counted on the environment's own row, in the transaction that
makes the version. The capture carries its number too, so that whoever thins out or collects
captures sees on the row itself that it is kept.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar

from podferry.domain.entity import Entity
from podferry.domain.image import BaseImage
from podferry.domain.pod import RunSpec, Setup
from podferry.domain.snapshot import Snapshot
from podferry.domain.volume import Environment, VersionRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Entity):
    """See the module. `created_at` is when it was frozen."""

    PREFIX: ClassVar[str] = "ver"

    environment_id: str
    number: int
    snapshot_id: str
    image: str
    """The base image: a machine that restores the version is rented with it."""
    base: BaseImage | None = None
    """Exactly which image that was; pods that are launched from the version get the same."""
    setup: Setup | None = None
    """Startup script and variables; pods that are launched from the version begin with them."""
    pod_id: str
    """The pod that it was captured from."""
    note: str | None = None
    size_bytes: int = 0
    captured_at: datetime | None = None

    @property
    def owner(self) -> str:
        return self.environment_id


def begun_as(environment: Environment, version: Version) -> Environment:
    """The new environment as it is when its pod is launched from the version."""
    return replace(
        environment,
        image=version.image,
        head=version.snapshot_id,
        captured_at=version.captured_at,
        size_bytes=version.size_bytes,
        made_from=VersionRef(environment_id=version.environment_id, number=version.number),
    )


def spec_from(version: Version, given: RunSpec) -> RunSpec:
    """How a pod runs that is launched from the version: what was left out is the version's."""
    kept = version.setup or Setup()
    spec = replace(given, image=version.image)
    if given.startup_script is None:
        spec = replace(spec, startup_script=kept.startup_script)
    if not given.environment and not given.secrets:
        spec = replace(spec, environment=kept.environment, secrets=kept.secrets)
    return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What freezing a capture writes, in one transaction."""

    version: Version
    environment: Environment
    snapshot: Snapshot


def version_id(environment_id: str, number: int) -> str:
    """The id of a version: made of its number, so that no number is given twice."""
    _, _, body = environment_id.partition("_")
    return f"{Version.PREFIX}_{body}-{number:06d}"


def freeze(
    environment: Environment,
    snapshot: Snapshot,
    note: str | None,
    now: datetime,
    setup: Setup | None = None,
) -> Frozen:
    """Make the capture the next version of its environment.

    `setup` is that of the pod if nothing of it ran since the capture; else the capture has it.
    """
    number = environment.versions + 1
    version = Version(
        id=version_id(environment.id, number),
        account_id=environment.account_id,
        created_at=now,
        environment_id=environment.id,
        number=number,
        snapshot_id=snapshot.id,
        image=environment.image,
        base=snapshot.base,
        setup=setup or snapshot.setup,
        pod_id=snapshot.pod_id,
        note=note,
        size_bytes=snapshot.size_bytes,
        captured_at=snapshot.committed_at,
    )
    return Frozen(
        version=version,
        environment=replace(environment, versions=number),
        snapshot=replace(snapshot, version=number, mark=None),
    )
