"""Writes staged files: contents, then owner, rights and times, with as few calls as they need."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from podferry_agent.snapshot.metadata import MetadataWriter
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.stage import NEW_FILE, StageDirectory

_OLD = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class StagedFile:
    """A file of several chunks, or with holes: threads write to it side by side."""

    entry: Entry
    place: bytes
    waiting: int  # chunks that are not in place yet
    lock: threading.Lock = field(default_factory=threading.Lock)


class FileWriter:
    """Writes into one stage; used by several threads at once."""

    def __init__(
        self, stage: StageDirectory, metadata: MetadataWriter, step: Callable[[str], None]
    ) -> None:
        self._stage = stage
        self._metadata = metadata
        self._step = step

    def write_whole(self, place: bytes, entry: Entry, data: memoryview | bytes) -> None:
        """A new file of one piece, which no other thread touches."""
        defaults = self._stage.defaults
        is_plain = not (
            entry.mode & defaults.lost_mode
            or entry.xattrs
            or entry.uid != defaults.uid
            or entry.gid != defaults.gid
        )
        mode = entry.mode & 0o777 if is_plain else 0o600
        fd = os.open(place, NEW_FILE, mode, dir_fd=self._stage.fd)
        try:
            if data and os.write(fd, data) != len(data):
                _write_at(fd, memoryview(data), 0)
            if is_plain:
                self._metadata.set_time(fd, entry)
            else:
                self._metadata.apply_fd(fd, entry)
        finally:
            os.close(fd)
        self._step("stage")

    def create(self, file: StagedFile) -> None:
        """An empty file of the right size."""
        fd = os.open(file.place, NEW_FILE, 0o600, dir_fd=self._stage.fd)
        try:
            os.ftruncate(fd, file.entry.size)
        finally:
            os.close(fd)

    def write_part(self, file: StagedFile, data: memoryview, position: int) -> bool:
        """One chunk of a file; whether that completed it."""
        fd = os.open(file.place, _OLD, dir_fd=self._stage.fd)
        try:
            _write_at(fd, data, position)
            with file.lock:
                file.waiting -= 1
                is_complete = not file.waiting
            if is_complete:
                self._complete(fd, file.entry)
        finally:
            os.close(fd)
        return is_complete

    def complete(self, file: StagedFile) -> None:
        """A file that lacks no chunk: all holes, or left by an earlier run."""
        fd = os.open(file.place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._stage.fd)
        try:
            self._complete(fd, file.entry)
        finally:
            os.close(fd)

    def _complete(self, fd: int, entry: Entry) -> None:
        self._metadata.apply_fd(fd, entry)
        self._step("stage")


def _write_at(fd: int, data: memoryview, position: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], position + done)
