"""Finds programs that still run on files the swap has replaced."""

import os
from pathlib import Path

_LIMIT = 50


def programs_with_deleted_files(proc: Path = Path("/proc")) -> list[str]:
    """Names of other processes with a deleted file mapped as code; empty without /proc."""
    names = set()
    try:
        directories = [p for p in proc.iterdir() if p.name.isdigit()]
    except OSError:
        return []
    for directory in directories:
        if directory.name == str(os.getpid()):
            continue
        try:
            maps = (directory / "maps").read_bytes()
            if any(_is_stale(line) for line in maps.splitlines()):
                names.add((directory / "comm").read_text(errors="replace").strip())
        except OSError:
            continue  # it ended meanwhile, or is not ours to look at
    return sorted(names)[:_LIMIT]


def _is_stale(line: bytes) -> bool:
    fields = line.split(None, 5)
    if len(fields) < 6 or b"x" not in fields[1]:
        return False
    path = fields[5]
    is_file = path.startswith(b"/") and not path.startswith((b"/memfd:", b"/dev/", b"/SYSV"))
    return is_file and path.endswith(b" (deleted)")
