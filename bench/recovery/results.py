"""What was measured, a file for each measurement, and the conditions it was made under."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

KEPT = Path("build/recovery")


@dataclass(frozen=True)
class Measured:
    """One measurement: `rows` are its plain figures, `options` what it was asked to do."""

    name: str
    options: dict[str, Any]
    machine: str
    note: str
    rows: list[dict[str, Any]]


def keep(name: str, options: dict[str, Any], note: str, rows: Sequence[Any]) -> None:
    """In place of what an earlier run of the same measurement left; `rows` are dataclasses."""
    measured = Measured(name, options, _this_machine(), note, [asdict(row) for row in rows])
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{name}.json").write_text(json.dumps(asdict(measured), indent=1))


def all_kept() -> list[Measured]:
    return [Measured(**json.loads(path.read_text())) for path in sorted(KEPT.glob("*.json"))]


def _this_machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"{memory:.0f} GB of memory, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )
