"""Copies files into memory while nothing writes to them."""

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass

from podferry_agent.snapshot.cutting import data_extents
from podferry_agent.snapshot.listings import row_of
from podferry_agent.snapshot.openfiles import holders_of
from podferry_agent.snapshot.pausing import Pauser

LARGEST = 64 << 20  # bytes that are copied in one pause: some 50 ms, and that much memory
_STEP = 4 << 20


class _TooLateError(Exception):
    """The pause ends before the copy is complete."""


@dataclass(frozen=True)
class RestCopier:
    """Pauses whoever has a file open for writing, and nobody else."""

    pauser: Pauser

    def copies(self, fds: list[int], stack: ExitStack) -> list[int] | None:
        """Fds of copies of all files as they were at one moment; `stack` closes them.

        None if nobody may be paused, or that did not help.
        """
        before = [os.fstat(fd) for fd in fds]
        if sum(status.st_blocks * 512 for status in before) > LARGEST:
            return None
        inodes = {(status.st_dev, status.st_ino) for status in before}
        writers = {holder.pid for holder in holders_of(inodes).writers_of(inodes)}
        made: list[int] = []
        with self.pauser.paused(writers) as pause:
            if pause is None:
                return None
            rows = [row_of(os.fstat(fd)) for fd in fds]
            try:
                for fd in fds:
                    made.append(_memory(stack))
                    _copy(fd, made[-1], pause.deadline)
            except _TooLateError:
                return None
            is_same = rows == [row_of(os.fstat(fd)) for fd in fds]
            return made if is_same and not pause.is_over else None


def _memory(stack: ExitStack) -> int:
    fd = os.memfd_create("podferry-copy", os.MFD_CLOEXEC)
    stack.callback(os.close, fd)
    return fd


def _copy(source: int, target: int, deadline: float) -> None:
    status = os.fstat(source)
    os.ftruncate(target, status.st_size)
    for offset, length in data_extents(source, status):
        os.lseek(target, offset, os.SEEK_SET)
        position, end = offset, offset + length
        while position < end:
            if time.monotonic() > deadline:
                raise _TooLateError
            sent = os.sendfile(target, source, position, min(_STEP, end - position))
            if not sent:
                raise _TooLateError  # it shrinks, though its writers are at rest
            position += sent
