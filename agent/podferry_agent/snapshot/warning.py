"""Collects what could not be done as wanted: typed, counted, and short enough for a report."""

import errno
import threading
from collections import Counter

from podferry_agent.snapshot.model import REPORT_LIMIT, display


class Warnings:
    """Shared by the threads of a restore. Each has a kind, a path and a reason."""

    def __init__(self) -> None:
        self.paths: dict[bytes, set[str]] = {}
        self._counts: Counter[str] = Counter()
        self._texts: list[str] = []
        self._seen: set[tuple[str, bytes]] = set()
        self._lock = threading.Lock()

    def add(self, kind: str, path: bytes, reason: str | OSError) -> None:
        """A kind is counted once for a path, however often it is tried."""
        if isinstance(reason, OSError):
            reason = errno.errorcode.get(reason.errno or 0, str(reason))
        with self._lock:
            if (kind, path) in self._seen:
                return
            self._seen.add((kind, path))
            self.paths.setdefault(path, set()).add(kind)
            self._counts[kind] += 1
            if len(self._texts) < REPORT_LIMIT:
                self._texts.append(f"{kind}: {display(path) or '/'}: {reason}")

    def texts(self) -> list[str]:
        """The report; when it is cut, its last line gives the counts of all kinds."""
        with self._lock:
            if sum(self._counts.values()) <= REPORT_LIMIT:
                return list(self._texts)
            counts = ", ".join(f"{kind} {n}" for kind, n in sorted(self._counts.items()))
            return [*self._texts[: REPORT_LIMIT - 1], f"not all are listed: {counts}"]
