"""Zips a directory so that the same files always give the same bytes."""

import io
import os
import zipfile
from pathlib import Path

EPOCH = (1980, 1, 1, 0, 0, 0)  # The oldest time that a zip can hold.
SKIPPED = "__pycache__"


def zip_directory(directory: Path) -> bytes:
    """Archives every file except Python's caches; order, times and modes do not vary."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(directory):
            archive.writestr(_entry(path, directory), path.read_bytes())
    return buffer.getvalue()


def _files(directory: Path) -> list[Path]:
    found: list[Path] = []
    for parent, directories, names in os.walk(directory, followlinks=True):
        directories[:] = [name for name in directories if name != SKIPPED]
        found.extend(Path(parent, name) for name in names)
    return sorted(found)


def _entry(path: Path, directory: Path) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path.relative_to(directory).as_posix(), EPOCH)
    mode = 0o755 if os.access(path, os.X_OK) else 0o644
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
