"""Who may log in to a simulated machine that is rented bare, and what goes wrong at it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

DOOR_FILE = "/etc/ssh/door.json"
"""Where the machine's SSH server finds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What the provider set up."""

    user: str
    public_key: str
    port: int = 0
    late_seconds: float = 0.0
    """The server starts so much later than the machine."""
    drops: bool = False
    """The first connection that sends something is cut in the middle of it."""
    dies: bool = False
    """The machine ends once something was sent to it."""
    changes_key: bool = False
    """After the first login another host key is shown."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, path: str = DOOR_FILE) -> Door:
        return cls(**json.loads(Path(path).read_text()))
