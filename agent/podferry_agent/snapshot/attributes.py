"""Large extended attributes: their values are chunks, as contents are, so that pages stay small."""

from collections.abc import Iterable

from podferry_agent.snapshot.fetching import Fetcher, Piece, RightPiece
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.staging import Source


class _Values:
    """Takes the chunks of values."""

    def __init__(self) -> None:
        self.by_chunk: dict[int, bytes] = {}

    def write(self, raw: memoryview, right: list[RightPiece]) -> int:
        for piece, start, length in right:
            self.by_chunk[piece.chunk] = bytes(raw[start : start + length])
        return sum(len(piece.whole) for piece, _, _ in right)

    def wrote(self, size: int, files: int) -> None:
        """Not part of the progress: all values together are small beside the contents."""


def fetch_values(entries: Iterable[Entry], source: Source) -> dict[bytes, str]:
    """Give entries the attributes that a page has as chunks, so that they have all in `xattrs`.

    Returns those that lack some (path, damaged object): only of a best effort, else that raises.
    """
    with_large = [entry for entry in entries if entry.large_xattrs]
    if not with_large:
        return {}
    pieces: dict[int, Piece] = {}
    for entry in with_large:
        for _, chunk in entry.large_xattrs:
            pieces.setdefault(chunk, Piece(chunk)).whole.append((b"", entry))
    values = _Values()
    fetcher = Fetcher(source.store, source.table, source.key, values, keep_going=source.best_effort)
    failures = fetcher.run(pieces.values())
    if failures and not source.best_effort:
        raise fetcher.damage(failures[0])
    for entry in with_large:
        found = values.by_chunk
        large = [(name, found[chunk]) for name, chunk in entry.large_xattrs if chunk in found]
        entry.xattrs = tuple(sorted([*entry.xattrs, *large]))
    return {path: each.error.object_name for each in failures for path in each.wanted.missing()}
