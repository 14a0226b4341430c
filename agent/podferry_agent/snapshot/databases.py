"""Copies a SQLite database that is in use, by SQLite's own backup, so that it is consistent."""

import os
import shutil
import sqlite3
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

MAGIC = b"SQLite format 3\0"
WAL, JOURNAL, SHM = b"-wal", b"-journal", b"-shm"
BESIDE = (WAL, JOURNAL, SHM)
_READ_VERSION = 19  # offset in the header: 2 means that changes are in the -wal file
_STEP = 4 << 20
_BUSY_SECONDS = 1.0
_LOCK_SECONDS = 2.0  # without a WAL, writers wait while we read; their usual patience is 5 s
_SNAPSHOT_SECONDS = 300.0  # with one, nobody waits
_FREE_SHARE = 2  # a copy may take one part in so many of the free disk


class NotCopiedError(Exception):
    """The backup did not work; the message says why."""


def base_of(path: bytes) -> bytes | None:
    """The database that a name beside it belongs to, going by the name."""
    for suffix in BESIDE:
        if path.endswith(suffix) and len(path.rpartition(b"/")[2]) > len(suffix):
            return path.removesuffix(suffix)
    return None


def has_wal(header: bytes) -> bool:
    """Whether a database with this header keeps its changes in a -wal file."""
    return len(header) > _READ_VERSION and header[_READ_VERSION] == 2


@contextmanager
def copied(
    path: bytes, directory: Path, size: int, *, wal: bool, breathe: Callable[[], None]
) -> Iterator[int]:
    """An fd of a consistent copy below `directory`, gone at the end.

    The database is opened to be read only. No other fd of it may be closed by this process
    meanwhile: that would drop the locks that keep it consistent.

    Raises: `NotCopiedError`.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if size > shutil.disk_usage(directory).free // _FREE_SHARE:
        raise NotCopiedError(f"there is no room for a copy of {size} bytes")
    target = directory / f"copy-{os.getpid()}.sqlite"
    try:
        _copy(path, target, wal=wal, breathe=breathe if wal else _hurry)
        fd = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)
    except sqlite3.Error as error:
        raise NotCopiedError(str(error)) from error
    finally:
        for leftover in directory.glob(f"{target.name}*"):
            leftover.unlink()


def _copy(path: bytes, target: Path, *, wal: bool, breathe: Callable[[], None]) -> None:
    name = f"file:{urllib.parse.quote(path)}?mode=ro"
    deadline = time.monotonic() + (_SNAPSHOT_SECONDS if wal else _LOCK_SECONDS)

    def progress(_status: int, _remaining: int, _total: int) -> None:
        if time.monotonic() > deadline:
            raise NotCopiedError("it takes too long")
        breathe()

    with (
        closing(_connected(name)) as source,
        closing(_connected(f"file:{urllib.parse.quote(bytes(target))}")) as copy,
    ):
        copy.execute("pragma synchronous=off")
        copy.execute("pragma journal_mode=off")
        # One view of the database for all steps: it cannot change under the copy.
        source.execute("begin")
        page_size = source.execute("pragma page_size").fetchone()[0]
        source.execute("select count(*) from sqlite_master").fetchone()
        source.backup(copy, pages=max(1, _STEP // page_size), progress=progress, sleep=0.01)
        source.execute("rollback")


def _connected(name: str) -> sqlite3.Connection:
    return sqlite3.connect(
        name, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


def _hurry() -> None:
    """Writers wait: no time to sleep."""
