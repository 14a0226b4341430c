"""Which image a tag stands for at this moment."""

from dataclasses import dataclass
from typing import Protocol

from podferry.domain.image import ImageName


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Nobody can say; `reason` is meant for the pod's user."""

    reason: str


class ImageRegistries(Protocol):
    """The registries that images are pulled from, asked without credentials."""

    def digest(self, image: ImageName) -> str | Unresolved:
        """`sha256:...` of what the tag stands for; of the index, if there are several platforms.

        What was answered may be kept for some minutes. Takes less than half a minute and raises
        nothing: that a registry is private, slow or down must not fail a launch.
        """
