"""Names of container images, and the exact image that a pod stands on."""

import re
from dataclasses import dataclass
from datetime import datetime

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
DOCKER_HUB = "docker.io"


@dataclass(frozen=True, slots=True)
class ImageName:
    """What a reference means, with what it leaves out."""

    registry: str
    repository: str
    tag: str
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseImage:
    """The image that a pod's machines begin as, exactly, or why nobody could say which it is."""

    reference: str
    """As its user wrote it: a tag that may stand for another image tomorrow."""
    digest: str | None = None
    unresolved: str | None = None
    """Why there is no digest."""
    looked_at: datetime

    @property
    def pinned(self) -> str:
        """What a machine is rented with: by digest if it is known."""
        if self.digest is None:
            return self.reference
        return f"{_without_tag(self.reference)}@{self.digest}"

    def is_same_image(self, other: "BaseImage | None") -> bool:
        """Whether both are known to be one image."""
        return other is not None and self.digest is not None and self.digest == other.digest


def parse_image(reference: str) -> ImageName:
    """As a container engine reads it: `debian` is `docker.io/library/debian:latest`."""
    name, _, digest = reference.partition("@")
    path = _without_tag(name)
    tag = name[len(path) + 1 :] or "latest"
    first, _, rest = path.partition("/")
    is_registry = bool(rest) and ("." in first or ":" in first or first == "localhost")
    registry, repository = (first, rest) if is_registry else (DOCKER_HUB, path)
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    return ImageName(registry, repository, tag, digest or None)


def _without_tag(reference: str) -> str:
    name = reference.partition("@")[0]
    # A colon before the last slash is that of a registry's port.
    colon = name.find(":", name.rfind("/") + 1)
    return name if colon < 0 else name[:colon]
