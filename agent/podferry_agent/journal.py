"""Command states on disk, so that an agent that was killed reports what really happened."""

import logging
import re
from dataclasses import dataclass, field

from podferry_agent.errors import SettingsError, WireError
from podferry_agent.fields import Fields
from podferry_agent.state import StateStore

_LOG = logging.getLogger(__name__)
_FOLDER = "commands"
_KEPT = 500
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(slots=True)
class JournalEntry:
    """One command. `args` are kept only for kinds that are run again after a restart."""

    id: str
    kind: str
    state: str = "running"
    timeout_seconds: int = 0
    args: dict[str, object] = field(default_factory=dict)
    result: dict[str, object] | None = None
    error: dict[str, object] | None = None
    pid: int | None = None
    started: int = 0
    is_reported: bool = False

    @property
    def has_ended(self) -> bool:
        return self.state != "running"

    def report(self, progress: dict[str, object] | None) -> dict[str, object]:
        return {
            "id": self.id,
            "state": self.state,
            "progress": None if self.has_ended else progress,
            "result": self.result,
            "error": self.error,
        }

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def parse(cls, document: dict[str, object]) -> "JournalEntry":
        fields = Fields(document, "stored command")
        return cls(
            id=fields.text("id"),
            kind=fields.text("kind"),
            state=fields.choice("state", ("running", "succeeded", "failed")),
            timeout_seconds=fields.integer("timeout_seconds"),
            args=fields.mapping("args"),
            result=fields.mapping("result") if fields.has("result") else None,
            error=fields.mapping("error") if fields.has("error") else None,
            pid=fields.optional_integer("pid"),
            started=fields.integer("started"),
            is_reported=fields.flag("is_reported", default=False),
        )


class CommandJournal:
    """One file per command. Ended ones are kept for long, so that a late duplicate is known."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def load(self) -> dict[str, JournalEntry]:
        """Oldest first."""
        entries = (self._load_one(name) for name in self._store.names(_FOLDER))
        return {entry.id: entry for entry in entries if entry is not None}

    def _load_one(self, name: str) -> JournalEntry | None:
        try:
            document = self._store.load(name)
            return None if document is None else JournalEntry.parse(document)
        except (SettingsError, WireError) as error:
            # The host lost power in the middle of a write. One unknown command is better than a
            # machine that nobody can reach any more.
            _LOG.error("stored_command_damaged", extra={"reason": str(error)})
            return None

    def save(self, entry: JournalEntry) -> None:
        self._store.save_if_possible(self._name(entry.id), entry.to_json())

    def prune(self, entries: dict[str, JournalEntry]) -> None:
        """Forget the oldest of those whose end has arrived."""
        settled = [entry.id for entry in entries.values() if entry.is_reported]
        for command_id in settled[: max(0, len(settled) - _KEPT)]:
            self._store.remove(self._name(command_id))
            del entries[command_id]

    @staticmethod
    def _name(command_id: str) -> str:
        if not _ID.fullmatch(command_id):
            raise WireError(f"command id {command_id[:80]!r} holds characters that ids never have")
        return f"{_FOLDER}/{command_id}"
