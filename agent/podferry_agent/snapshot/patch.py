"""Makes a new manifest from the parent's pages and what changed: other pages are not even read."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from podferry_agent.snapshot.model import Entry, is_below, sort_key
from podferry_agent.snapshot.pages import PageCutter


@dataclass
class Patch:
    """What differs from the parent. Without a parent, `changed` is everything."""

    changed: Sequence[Entry]  # sorted; new ones and those to be replaced
    removed: Iterable[bytes] = ()  # gone with all that was below them
    firsts: Sequence[bytes] = ()  # first path of each page of the parent
    _removed: set[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._removed = set(self.removed)

    def groups(self, read_page: Callable[[int], Sequence[Entry]]) -> Iterator[int | list[Entry]]:
        """Pages in order: the number of a page of the parent, or the entries of a new one."""
        keys = [sort_key(path) for path in self.firsts]
        dirty = self._dirty(keys)
        cutter = PageCutter()
        changed_keys = [sort_key(entry.path) for entry in self.changed]
        used = 0
        for number in range(len(keys)):
            if number not in dirty and cutter.is_at_cut:
                yield number
                continue
            is_last = number + 1 == len(keys)
            upto = len(changed_keys) if is_last else bisect_left(changed_keys, keys[number + 1])
            yield from cutter.cut(self._merged(read_page(number), self.changed[used:upto]))
            used = upto
        yield from cutter.cut(self.changed[used:])
        yield from cutter.rest()

    def _dirty(self, keys: Sequence[bytes]) -> set[int]:
        """Pages that a change falls into."""
        found = {bisect_right(keys, sort_key(entry.path)) - 1 for entry in self.changed}
        for path in self._removed:
            key = sort_key(path)
            found.update(range(bisect_right(keys, key) - 1, bisect_left(keys, key + b"\1")))
        return found

    def _merged(self, old: Sequence[Entry], new: Sequence[Entry]) -> list[Entry]:
        replaced = {entry.path for entry in new}
        kept = [e for e in old if e.path not in replaced and not is_below(e.path, self._removed)]
        return sorted([*kept, *new], key=lambda entry: sort_key(entry.path))
