"""What the agent must remember when it is killed: small JSON files, replaced in one step."""

import json
import logging
import os
from pathlib import Path

from podferry_agent.errors import SettingsError

_LOG = logging.getLogger(__name__)


class StateStore:
    """A private directory of JSON documents; a reader sees the old or the new one, never half."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        # Tokens and the user's environment variables are in here.
        directory.chmod(0o700)

    def load(self, name: str) -> dict[str, object] | None:
        """None if it was never stored.

        Raises:
            SettingsError: The document is damaged.
        """
        path = self._path(name)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            document = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{path} is damaged ({error}); remove it to forget it") from error
        if not isinstance(document, dict):
            raise SettingsError(f"{path} does not hold a JSON object; remove it to forget it")
        return document

    def save(self, name: str, document: dict[str, object]) -> None:
        path = self._path(name)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(path, json.dumps(document).encode(), mode=0o600)

    def save_if_possible(self, name: str, document: dict[str, object]) -> None:
        """For what is also held in memory: a user who fills the disk must not stop the agent."""
        try:
            self.save(name, document)
        except OSError as error:
            _LOG.warning("state_not_stored", extra={"document": name, "reason": str(error)})

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        """The names of the documents in a folder, oldest first."""
        paths = list((self.directory / folder).glob("*.json"))
        paths.sort(key=lambda path: (path.stat().st_mtime_ns, path.name))
        return [f"{folder}/{path.stem}" for path in paths]

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}.json"


def replace_file(path: Path, content: bytes, *, mode: int) -> None:
    """Write beside the target and rename, so that a kill at any point leaves a whole file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
