"""The example messages that agent and control plane share."""

import json
from pathlib import Path
from typing import Any

MESSAGES = Path(__file__).parents[2] / "wire" / "messages"


def message(name: str) -> dict[str, Any]:
    """A fresh copy of one of them."""
    found: dict[str, Any] = json.loads((MESSAGES / f"{name}.json").read_text(encoding="utf-8"))
    return found
