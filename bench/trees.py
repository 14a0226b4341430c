"""Compares a restored tree with its source, without the engine's help."""

import hashlib
import os
import stat
from pathlib import Path


def differences(source: Path, target: Path) -> int:
    """Names that are missing, too much, or differ in content, mode, owner or time of files."""
    wanted, found = _described(source), _described(target)
    return sum(wanted.get(path) != found.get(path) for path in wanted.keys() | found.keys())


def _described(root: Path) -> dict[str, tuple[object, ...]]:
    described = {}
    for directory, names, files in os.walk(root):
        for name in [*names, *files]:
            path = Path(directory) / name
            status = path.lstat()
            facts: list[object] = [status.st_mode, status.st_uid, status.st_gid]
            if stat.S_ISREG(status.st_mode):
                with path.open("rb") as file:
                    facts += [hashlib.file_digest(file, "sha256").digest(), status.st_mtime_ns]
            elif stat.S_ISLNK(status.st_mode):
                facts.append(path.readlink())
            described[str(path.relative_to(root))] = tuple(facts)
    return described
