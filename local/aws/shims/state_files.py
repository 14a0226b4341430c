"""Writes the state of a service to its file.

MiniStack writes with `json.dump`, which is several times as slow as `dumps`, and it writes every
service that is loaded, used or not; the next start then loads all of those again.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ministack.core import persistence

from local.aws.shims import guard


class StateFiles:
    """The files of all services, in the emulator's own format."""

    def __init__(self) -> None:
        self._pristine: dict[str, str] = {}
        self._withheld: set[str] = set()
        self._followers: dict[str, Callable[[], None]] = {}

    def when_written(self, service: str, follow: Callable[[], None]) -> None:
        """Has something done each time when the state of a service is safely in its file."""
        self._followers[service] = follow

    def withhold(self, service: str) -> None:
        """Leaves the file of a service alone, because its state is not loaded yet."""
        self._withheld.add(service)

    def release(self, service: str) -> None:
        """Ends what `withhold` began."""
        self._withheld.discard(service)

    def note_pristine(self, services: Iterable[tuple[str, Any]]) -> None:
        """Remembers how services look that nobody has used; such a state needs no file."""
        for service, state in services:
            self._pristine[service] = _text(service, state)

    def write(self, service: str, state: Any) -> None:
        """Replaces the file in one step."""
        if service in self._withheld:
            return
        text = _text(service, state)
        path = Path(persistence.STATE_DIR, f"{service}.json")
        if text == self._pristine.get(service) and not path.exists():
            return
        draft = path.with_suffix(".json.tmp")
        draft.write_text(text)
        draft.replace(path)
        if follow := self._followers.get(service):
            follow()


def apply() -> StateFiles:
    """Puts our writer in the place of the emulator's."""
    files = StateFiles()
    guard.take(persistence, "_state_format_version")
    guard.take(persistence, "_json_default")
    guard.replace(persistence, "save_state", files.write)
    return files


def _text(service: str, state: Any) -> str:
    document = {
        "__ministack_format__": persistence._state_format_version(service),
        "payload": state,
    }
    return json.dumps(document, default=persistence._json_default)
