"""Tells of a path whether it stays behind, and why."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from podferry.services.sharing.leak_list import LOGS, NEVER_LEAVES
from podferry_agent.snapshot.globs import pattern_to_regex
from podferry_agent.snapshot.model import Entry, display

BY_OWNER = "excluded by its owner"


def _compiled(patterns: Iterable[str]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(b"(?:" + _anywhere(one) + b")" for one in patterns), re.DOTALL)


def _anywhere(pattern: str) -> bytes:
    """A pattern with an inner slash is of any home directory unless it begins with one."""
    if "/" in pattern and not pattern.startswith("/"):
        return pattern_to_regex(f"**/{pattern}")
    return pattern_to_regex(pattern)


_REASONS = tuple((why, _compiled(patterns)) for why, patterns in NEVER_LEAVES)
_LOGS = _compiled(LOGS[1])


@dataclass(frozen=True, slots=True)
class LeakGuard:
    """The leak list, and what the owner excludes besides."""

    excluded: Collection[str] = ()
    """Paths as `display` shows them, with a leading slash."""

    def reason(self, entry: Entry) -> str | None:
        """Why the entry stays behind; `None` if it travels."""
        path = b"/" + entry.path
        for why, pattern in _REASONS:
            if pattern.match(path + b"/" if entry.is_directory else path):
                return why
        if not entry.is_directory and _LOGS.match(path):
            return LOGS[0]
        return BY_OWNER if self.excluded and f"/{display(entry.path)}" in self.excluded else None
