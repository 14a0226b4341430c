"""Where the files are that the stacks turn into assets, and a check that all of them are there."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from infra.errors import SourcesIncompleteError

REPOSITORY = Path(__file__).resolve().parent.parent


class Target(StrEnum):
    """What the third-party layer is built for; the only difference between local and AWS."""

    LAMBDA = "lambda"
    LOCAL = "local"


BUILD = {Target.LAMBDA: "make build-lambda", Target.LOCAL: "make build"}


@dataclass(frozen=True, slots=True)
class Sources:
    """The places below one root; tests hand in a root of their own."""

    root: Path = REPOSITORY

    @property
    def workflows(self) -> Path:
        return self.root / "infra" / "workflows"

    @property
    def functions(self) -> Path:
        return self.root / "functions"

    @property
    def package(self) -> Path:
        return self.root / "layers" / "podferry" / "python" / "podferry"

    @property
    def engine(self) -> Path:
        """The agent's package: its `snapshot` is the one code that knows the snapshot format."""
        return self.root / "agent" / "podferry_agent"

    @property
    def bootstrap_script(self) -> Path:
        return self.root / "build" / "agent" / "bootstrap.sh"

    @property
    def requirements(self) -> Path:
        return self.root / "layers" / "vendor" / "requirements.txt"

    @property
    def built_layers(self) -> Path:
        return self.root / "build" / "layers"

    @property
    def podferry_layer(self) -> Path:
        return self.built_layers / "podferry"

    @property
    def agent_bundle(self) -> Path:
        return self.root / "build" / "agent" / "podferry-agent-x86_64.tar.gz"

    def vendor_layer(self, target: Target) -> Path:
        return self.built_layers / f"vendor-{target}"

    def workflow(self, name: str) -> Path:
        return self.workflows / f"{name}.asl.json"

    def function(self, name: str) -> Path:
        return self.functions / name

    def agent_bundle_sha256(self) -> str:
        return hashlib.sha256(self.agent_bundle.read_bytes()).hexdigest()

    def require_built(self, target: Target) -> None:
        """Check what the build makes.

        Raises:
            SourcesIncompleteError: names what is missing and the command that makes it.
        """
        needed = (self.agent_bundle, self.podferry_layer, self.vendor_layer(target))
        missing = self._missing(needed)
        if missing:
            raise SourcesIncompleteError(f"{missing} not built yet: run `{BUILD[target]}`")

    def require_written(self, functions: tuple[str, ...], workflows: tuple[str, ...]) -> None:
        """Check what the repository itself holds.

        Raises:
            SourcesIncompleteError: names what is missing.
        """
        handlers = (self.function(name) / "handler.py" for name in functions)
        missing = self._missing((*handlers, *(self.workflow(name) for name in workflows)))
        if missing:
            raise SourcesIncompleteError(f"{missing} missing: this checkout is not complete")

    def _missing(self, paths: tuple[Path, ...]) -> str:
        return ", ".join(str(path.relative_to(self.root)) for path in paths if not path.exists())
