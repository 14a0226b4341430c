"""Container registries in memory, for tests."""

import hashlib

from podferry.domain.image import ImageName
from podferry.ports.image_registry import Unresolved


class MemoryRegistries:
    """Every image exists; its digest is made of its name, until a test moves the tag."""

    def __init__(self) -> None:
        self.asked: list[ImageName] = []
        self.failure: str | None = None
        self.moves = 0
        """How often all tags were given to other images."""

    def digest(self, image: ImageName) -> str | Unresolved:
        """See the port."""
        self.asked.append(image)
        if self.failure is not None:
            return Unresolved(self.failure)
        name = f"{image.registry}/{image.repository}:{image.tag} {self.moves}"
        return f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"
