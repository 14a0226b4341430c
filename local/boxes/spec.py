"""What a box is to be: the message from the process that owns a box to the keeper that runs it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

# Overlay mount options have no escape for these that every kernel understands.
_UNUSABLE_IN_MOUNT_OPTIONS = re.compile(r"[:,\\]")

DEFAULT_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
}


class Isolation(StrEnum):
    """How a box is kept apart from the host, strongest first."""

    ROOT = "root"
    """User namespace with the identity map, made by the host's root."""
    RANGE = "range"
    """User namespace of an ordinary user with a range of subordinate ids."""
    SINGLE = "single"
    """User namespace of an ordinary user, one id: no chown in the box."""
    CHROOT = "chroot"
    """A copy of the base and chroot: own files, but the host's processes are visible."""
    DIRECTORY = "directory"
    """Only a directory: programs of the host run in it. No isolation."""

    @property
    def has_namespaces(self) -> bool:
        return self in (Isolation.ROOT, Isolation.RANGE, Isolation.SINGLE)


class BoxSpecError(ValueError):
    """A box cannot be described like this."""


@dataclass(frozen=True, slots=True)
class GPU:
    """One model of GPU as the fake driver in a box reports it."""

    model: str
    memory_mib: int
    count: int = 1
    driver_version: str = "570.86.15"
    cuda_version: str = "12.8"


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory of the host that a box sees as a file system of its own."""

    source: Path
    target: str
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """A box: where it lives on the host's disk and what runs in it."""

    directory: Path
    base: Path
    isolation: Isolation
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_ENVIRONMENT))
    hostname: str = "box"
    gpu: GPU | None = None
    provider_files: Mapping[str, str] = field(default_factory=dict)
    """Absolute path in the box -> text. Plain files of the box's own layer, not mounts."""
    mounts: tuple[Mount, ...] = ()
    """Only where the isolation has namespaces."""
    shared_memory_bytes: int = 64 * 1024 * 1024
    can_nest: bool = False
    """Whether boxes can be started inside: they need a /proc of which nothing is covered."""

    def __post_init__(self) -> None:
        if not self.argv:
            raise BoxSpecError("argv: a box needs a command, for example ('/bin/sh', '-c', '...')")
        for name, path in (("directory", self.directory), ("base", self.base)):
            if not path.is_absolute() or _UNUSABLE_IN_MOUNT_OPTIONS.search(str(path)):
                raise BoxSpecError(
                    f"{name}: {path} must be absolute and free of ':', ',' and '\\'; "
                    "choose another data directory"
                )

    @property
    def root(self) -> Path:
        """Where the box's root appears: mounted for overlays, real for copies."""
        return self.directory / "root"

    @property
    def log_path(self) -> Path:
        return self.directory / "log"

    def save(self) -> Path:
        """Write the description beside the box, readable by the owner only: it holds tokens."""
        path = self.directory / "spec.json"
        values = asdict(self) | {
            "directory": str(self.directory),
            "base": str(self.base),
            "mounts": [(str(each.source), each.target, each.is_read_only) for each in self.mounts],
        }
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(values, file)
        return path

    @classmethod
    def load(cls, path: Path) -> BoxSpec:
        values: dict[str, Any] = json.loads(path.read_text())
        gpu, mounts = values.pop("gpu"), values.pop("mounts")
        return cls(
            directory=Path(values.pop("directory")),
            base=Path(values.pop("base")),
            isolation=Isolation(values.pop("isolation")),
            argv=tuple(values.pop("argv")),
            gpu=GPU(**gpu) if gpu else None,
            mounts=tuple(Mount(Path(source), *rest) for source, *rest in mounts),
            **values,
        )
