"""Records in numbered files, for what must outlive the process but not the next snapshot.

A record is safe from the end of the process as soon as `append` returns: the kernel has it. It is
not safe from the end of the machine, for nothing is synced to the disk.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from local.aws.errors import LocalAWSError

SUFFIX = ".jsonl"


class SegmentedLog:
    """The segments of one directory, in the order of their numbers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # The last line of an older segment may be torn, so none is ever continued.
        self._number = max(self._numbers(), default=0) + 1
        self._file: BinaryIO | None = None

    def read(self) -> Iterator[Any]:
        """Gives every complete record, oldest first.

        Raises:
            LocalAWSError: a line was damaged by something else than the end of its writer.
        """
        for number in self._numbers():
            path = self._path(number)
            # What follows the last line end is torn: it was never acknowledged.
            lines = path.read_bytes().split(b"\n")[:-1]
            for place, line in enumerate(lines, start=1):
                yield _parse(line, path, place)

    def append(self, record: Any) -> None:
        """Writes one record; if that fails, the next one starts a new segment."""
        line = memoryview(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        file = self._file or self._open()
        try:
            while line:
                line = line[file.write(line) :]
        except OSError:
            self.cut()
            raise

    def cut(self) -> int:
        """Ends the current segment; gives the number of the last one that has ended."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._number += 1
        return self._number - 1

    def drop(self, up_to: int) -> None:
        """Deletes the segments up to a number, oldest first."""
        for number in self._numbers():
            if number <= up_to:
                self._path(number).unlink()

    def _open(self) -> BinaryIO:
        self._file = self._path(self._number).open("xb", buffering=0)
        return self._file

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self._directory.glob(f"*{SUFFIX}"))

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:08}{SUFFIX}"


def _parse(line: bytes, path: Path, place: int) -> Any:
    try:
        return json.loads(line)
    except ValueError as damaged:
        raise LocalAWSError(
            f"line {place} of {path} is damaged ({damaged}): restore the file, or delete it and "
            "lose the writes since the last snapshot of the tables"
        ) from damaged
