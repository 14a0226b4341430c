"""The memory of a simulated provider on disk: one JSON file, replaced at every change."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from local.providers.instance import Instance


class DataDirectoryBusyError(Exception):
    """Another simulator uses this data directory."""


class Store:
    """Instances and the few numbers that must outlive the simulator, even a killed one."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        self._path = directory / "state.json"
        self._lock = self._take_lock(directory / "lock")
        values: dict[str, Any] = {}
        if self._path.exists():
            values = json.loads(self._path.read_text())
        loaded = [Instance.from_json(each) for each in values.get("instances", [])]
        self.instances = {instance.id: instance for instance in loaded}
        self.clock_offset: float = values.get("clock_offset", 0.0)
        self.deposit_micros: int | None = values.get("deposit_micros")

    def save(self) -> None:
        """Replace the file as a whole, so that a kill at any moment leaves a complete one."""
        values = {
            "instances": [instance.to_json() for instance in self.instances.values()],
            "clock_offset": self.clock_offset,
            "deposit_micros": self.deposit_micros,
        }
        new = self._path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(values, file)
        new.replace(self._path)

    def close(self) -> None:
        os.close(self._lock)

    @staticmethod
    def _take_lock(path: Path) -> int:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise DataDirectoryBusyError(
                f"{path.parent}: another simulator runs on this data directory; "
                "stop it or choose another one with --data"
            ) from error
        return lock
