"""Fills the stage with everything that differs, each chunk checked before it is written."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.chunks import ChunkTable
from podferry_agent.snapshot.compare import is_one_chunk, missing_chunks, pairs
from podferry_agent.snapshot.errors import DiskFullError
from podferry_agent.snapshot.fetching import Failure, Fetcher, Piece, RightPiece
from podferry_agent.snapshot.growing import BranchMaker
from podferry_agent.snapshot.metadata import MetadataWriter
from podferry_agent.snapshot.model import Entry, ObjectStore
from podferry_agent.snapshot.plan import Plan
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.stage import StageDirectory
from podferry_agent.snapshot.writing import FileWriter, StagedFile, WholeFile


@dataclass(frozen=True)
class Source:
    """Where contents come from, and how they are proven."""

    store: ObjectStore
    table: ChunkTable
    key: bytes
    best_effort: bool = False


@dataclass
class Needs:
    """What the files of a plan lack, by chunk."""

    pieces: dict[int, Piece] = field(default_factory=dict)
    bytes: int = 0

    def piece(self, chunk: int) -> Piece:
        found = self.pieces.get(chunk)
        if found is None:
            found = self.pieces[chunk] = Piece(chunk)
        return found


class Stager:
    """Stages one plan."""

    def __init__(
        self, stage: StageDirectory, source: Source, metadata: MetadataWriter, meter: Meter
    ) -> None:
        self.written_bytes = 0
        self._stage = stage
        self._source = source
        self._metadata = metadata
        self._meter = meter
        self._lock = threading.Lock()

    def run(self, plan: Plan, step: Callable[[str], None]) -> dict[bytes, str]:
        """Stage all that the plan makes; the files that could not be had, with their objects.

        Those are errors unless this is a best effort. The tree has not changed.
        """
        self._writer = FileWriter(self._stage, self._metadata, step)
        entries = plan.staged()
        places = {plan.branches.place_of(entry.path): entry for entry in entries}
        directories = plan.branches.directories.values()
        leftovers = self._stage.leftovers({*places, *directories})
        self._meter.phase("stage", sum(entry.size for entry in entries), len(entries))
        maker = BranchMaker(self._stage, plan, self._metadata, step)
        maker.make_directories(leftovers)
        needs = self._needs(places, leftovers)
        self._check_room(needs)
        lost = self._fetch(needs)
        maker.fill(lost)
        maker.finish_directories()
        posix.syncfs(self._stage.fd)
        self._meter.finish()
        return lost

    def _needs(self, places: dict[bytes, Entry], leftovers: set[bytes]) -> Needs:
        needs = Needs()
        table = self._source.table
        for place, entry in places.items():
            if place in leftovers and self._resumes(place, entry, needs):
                continue
            if is_one_chunk(entry, table):
                needs.piece(entry.refs[1]).whole.append((place, entry))
                needs.bytes += entry.size
            elif not entry.size:
                self._writer.write_whole(place, entry, b"")
                self._meter.add(0, 1)
            else:
                file = StagedFile(entry, place, 0)
                self._writer.create(file)
                self._want(file, list(pairs(entry.refs)), needs)
        return needs

    def _resumes(self, place: bytes, entry: Entry, needs: Needs) -> bool:
        """Whether what a killed run left is of use: it keeps the chunks that are right."""
        try:
            fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._stage.fd)
        except PermissionError:  # an ordinary user's file that nobody may read
            missing, is_whole = [], False
        else:
            try:
                is_whole = os.fstat(fd).st_size == entry.size
                missing = (
                    missing_chunks(fd, entry, self._source.table, self._source.key)
                    if is_whole
                    else []
                )
            finally:
                os.close(fd)
        if not is_whole or (missing and is_one_chunk(entry, self._source.table)):
            os.unlink(place, dir_fd=self._stage.fd)
            return False
        self._want(StagedFile(entry, place, 0), missing, needs)
        return True

    def _want(self, file: StagedFile, missing: list[tuple[int, int]], needs: Needs) -> None:
        entry, lengths = file.entry, self._source.table.lengths
        file.waiting = len(missing)
        for offset, chunk in missing:
            needs.piece(chunk).parts.append((file, offset))
        lacking = sum(lengths[chunk] for _, chunk in missing)
        needs.bytes += lacking
        if not missing:
            self._writer.complete(file)
        self._meter.add(entry.size - lacking, 0 if missing else 1)

    def _check_room(self, needs: Needs) -> None:
        room = self._stage.room()
        if needs.bytes > room:
            raise DiskFullError(f"{needs.bytes} bytes have to be staged, the disk has {room} free")

    def _fetch(self, needs: Needs) -> dict[bytes, str]:
        source = self._source
        fetcher = Fetcher(
            source.store, source.table, source.key, self, keep_going=source.best_effort
        )
        failures = fetcher.run(needs.pieces.values())
        if failures and not source.best_effort:
            raise fetcher.damage(failures[0])
        return self._lost(failures)

    def write(self, raw: memoryview, right: list[RightPiece]) -> int:
        """Chunks, in all their places; how many files that completed."""
        files = [
            WholeFile(place, entry, start, length)
            for piece, start, length in right
            for place, entry in piece.whole
        ]
        self._writer.write_all(files, raw)
        complete = len(files)
        for piece, start, length in right:
            for file, position in piece.parts:
                data = raw[start : start + length]
                complete += self._writer.write_part(file, data, position)
        return complete

    def wrote(self, size: int, files: int) -> None:
        """Count what was written of one block."""
        with self._lock:
            self.written_bytes += size
        self._meter.add(size, files)

    def _lost(self, failures: list[Failure]) -> dict[bytes, str]:
        """Take back what was begun of files that are not whole."""
        lost = {}
        for failure in failures:
            for piece in failure.wanted.pieces:
                if piece.done:
                    continue
                for path in piece.paths():
                    lost[path] = failure.error.object_name
                for file, _ in piece.parts:
                    if file.waiting >= 0:
                        file.waiting = -1
                        os.unlink(file.place, dir_fd=self._stage.fd)
        return lost
