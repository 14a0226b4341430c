"""An object store in a directory, for the command line and for tests of the engine."""

import hashlib
from pathlib import Path

from podferry_agent.snapshot.errors import ObjectNotFoundError
from podferry_agent.snapshot.statestore import write_atomically


class DirectoryStore:
    """Objects as files: `<directory>/<snapshot id>/<name>`. Refuses a body with another hash."""

    def __init__(self, directory: Path, snapshot_id: str = "", *, is_checking: bool = True) -> None:
        """`is_checking`: hash each body again, as a remote store does on its own processor."""
        self._directory = directory
        self._snapshot_id = snapshot_id
        self._is_checking = is_checking

    def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
        if self._is_checking and hashlib.sha256(body).hexdigest() != sha256:
            raise ValueError(f"{name}: the body is not what its SHA-256 says")
        path = self._directory / self._snapshot_id / name
        if path.exists():
            if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                raise FileExistsError(f"{path} exists with other bytes")
            return
        write_atomically(path, body, durable=False)

    def get(self, snapshot_id: str, name: str, start: int = 0, length: int | None = None) -> bytes:
        try:
            with (self._directory / snapshot_id / name).open("rb") as file:
                file.seek(start)
                return file.read(-1 if length is None else length)
        except FileNotFoundError as error:
            raise ObjectNotFoundError(f"{snapshot_id}/{name}") from error
