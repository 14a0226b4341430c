"""Unpacked code of functions and layers, by content, kept from one run to the next.

Keeping it spares a restart the unpacking and the compilation of every layer.
"""

import hashlib
import io
import os
import shutil
import zipfile
from pathlib import Path

KEPT = 40


class CodeStore:
    """A directory with one subdirectory per distinct archive."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def unpack(self, archive: bytes) -> Path:
        """Returns the directory of the archive's files; safe to call from several threads."""
        target = self._directory / hashlib.sha256(archive).hexdigest()
        if not target.exists():
            self._extract(archive, target)
        os.utime(target)
        return target

    def prune(self) -> None:
        """Drops what was not used for longest, and what an interrupted run left half done."""
        for draft in self._directory.glob("*.draft"):
            shutil.rmtree(draft)
        newest_first = sorted(
            self._directory.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True
        )
        for old in newest_first[KEPT:]:
            shutil.rmtree(old)

    def _extract(self, archive: bytes, target: Path) -> None:
        # A rename shows all of it or nothing, also to a thread that unpacks the same archive.
        draft = target.with_name(f"{target.name}.{os.urandom(4).hex()}.draft")
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            files.extractall(draft)
            for entry in files.infolist():
                if entry.external_attr >> 16 & 0o111 and not entry.is_dir():
                    (draft / entry.filename).chmod(0o755)
        try:
            draft.rename(target)
        except OSError:
            if not target.exists():
                raise
            shutil.rmtree(draft)
