"""Writes staged files: contents, then owner, rights and times, with as few calls as they need."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from podferry_agent.snapshot.metadata import MetadataWriter
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.native import Helper, NewFile, helper
from podferry_agent.snapshot.stage import NEW_FILE, StageDirectory

_OLD = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class StagedFile:
    """A file of several chunks, or with holes: threads write to it side by side."""

    entry: Entry
    place: bytes
    waiting: int  # chunks that are not in place yet
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file of one piece: where it is made, and where its content is in a block."""

    place: bytes
    entry: Entry
    start: int
    length: int


class FileWriter:
    """Writes into one stage; used by several threads at once."""

    def __init__(
        self, stage: StageDirectory, metadata: MetadataWriter, step: Callable[[str], None]
    ) -> None:
        self._stage = stage
        self._metadata = metadata
        self._step = step

    def write_all(self, files: list[WholeFile], raw: memoryview) -> None:
        """New files, which no other thread touches: most of them are plain."""
        native = helper()
        plain = [file for file in files if native and self._is_plain(file.entry)]
        if native and plain:
            self._write_plain(native, plain, raw)
        for file in files:
            if not native or not self._is_plain(file.entry):
                content = raw[file.start : file.start + file.length]
                self.write_whole(file.place, file.entry, content)

    def _write_plain(self, native: Helper, files: list[WholeFile], raw: memoryview) -> None:
        new = [
            NewFile(f.place, f.start, f.length, f.entry.mtime_ns, f.entry.mode & 0o777)
            for f in files
        ]
        done = 0
        while done < len(new):
            done += native.write_plain(self._stage.fd, new[done:], NEW_FILE, raw)
            if done < len(new):  # of this one the time was refused: that is said in a warning
                self._set_time(files[done])
                done += 1
        for _ in files:
            self._step("stage")

    def _set_time(self, file: WholeFile) -> None:
        fd = os.open(file.place, _OLD, dir_fd=self._stage.fd)
        try:
            self._metadata.set_time(fd, file.entry)
        finally:
            os.close(fd)

    def _is_plain(self, entry: Entry) -> bool:
        """Whether it needs nothing but content, mode and time."""
        defaults = self._stage.defaults
        return not (
            entry.mode & defaults.lost_mode
            or entry.xattrs
            or entry.uid != defaults.uid
            or entry.gid != defaults.gid
        )

    def write_whole(self, place: bytes, entry: Entry, data: memoryview | bytes) -> None:
        """A new file of one piece, which no other thread touches."""
        is_plain = self._is_plain(entry)
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
