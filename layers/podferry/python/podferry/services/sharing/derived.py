"""What of a page travels: the entries without those that stay behind, counted and hashed."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from podferry.services.sharing.guard import LeakGuard
from podferry_agent.snapshot.chunks import ChunkTable
from podferry_agent.snapshot.model import Entry


@dataclass(slots=True, kw_only=True)
class Totals:
    """Carried from run to run; a workflow keeps it as JSON."""

    chain: str = ""
    """Hash over all that travels so far."""
    entries: int = 0
    files: int = 0
    bytes: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    excluded_bytes: int = 0

    def as_state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, state: dict[str, Any] | None) -> "Totals":
        return cls() if state is None else cls(**state)


def travelling(entries: Iterable[Entry], guard: LeakGuard, totals: Totals) -> Iterator[Entry]:
    """The entries that leave; counts those that stay."""
    excluded = Counter(totals.excluded)
    for entry in entries:
        why = guard.reason(entry)
        if why is None:
            yield entry
        else:
            excluded[why] += 1
            totals.excluded_bytes += entry.size
    totals.excluded = dict(sorted(excluded.items()))


def add_page(totals: Totals, entries: Sequence[Entry], table: ChunkTable) -> None:
    """Count what leaves of a page, and hash it onto what left before."""
    digest = hashlib.sha256(totals.chain.encode())
    for entry in entries:
        digest.update(_line(entry, table))
    totals.chain = digest.hexdigest()
    totals.entries += len(entries)
    regular = [entry for entry in entries if entry.is_regular]
    totals.files += len(regular)
    totals.bytes += sum(entry.size for entry in regular)


def _line(entry: Entry, table: ChunkTable) -> bytes:
    plain = replace(entry, refs=entry.refs[::2], large_xattrs=())
    contents = [table.ids[chunk].hex() for chunk in entry.chunks]
    names = [name.hex() for name, _ in entry.large_xattrs]
    return repr((plain, names, contents)).encode()
