"""What a capture knows of each directory it walked: an unchanged one is told by one comparison.

A listing is what `scandir` and `lstat` showed, as two byte strings. When a later walk sees the same
bytes, nothing in the directory has changed, and no object is made for any name in it.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podferry_agent.snapshot.scanning import FileStatus
    from podferry_agent.snapshot.walk import Node

_ROW = struct.Struct("<QQqqqI")  # inode, device, ctime, mtime, size, mode
_INODE = struct.Struct("<QQ")  # as a row begins
ROW_SIZE = _ROW.size
_CTIME = struct.Struct("<16xq")  # where a row has it
UNPROVEN = bytes(ROW_SIZE)  # a row that no file has: the name is looked at again next time


def row_of(status: "FileStatus") -> bytes:
    """The facts that tell whether a name changed; a change of anything else changes the ctime."""
    return _ROW.pack(
        status.st_ino,
        status.st_dev,
        status.st_ctime_ns,
        status.st_mtime_ns,
        status.st_size,
        status.st_mode,
    )


def inode_of(row: bytes) -> tuple[int, int]:
    """Device and inode."""
    inode, device = _INODE.unpack_from(row)
    return device, inode


def ctime_ns_of(row: bytes) -> int:
    return int(_CTIME.unpack_from(row)[0])


@dataclass(slots=True)
class Listing:
    """One directory: all its names in the order of the kernel, also those that are left out."""

    path: bytes
    names: bytes  # joined by zero bytes
    rows: bytes
    opened: bytes  # names of the directories that are walked, sorted, joined by zero bytes
    # What was looked at in this walk: the places of the rows, and the node of each.
    places: "array[int]" = field(default_factory=lambda: array("I"))
    nodes: "list[Node]" = field(default_factory=list)
    unproven: list[int] = field(default_factory=list)  # places of names that could not be read

    def by_name(self) -> dict[bytes, bytes]:
        if not self.names:
            return {}
        rows = (self.rows[at : at + ROW_SIZE] for at in range(0, len(self.rows), ROW_SIZE))
        return dict(zip(self.names.split(b"\0"), rows, strict=True))

    def opened_names(self) -> list[bytes]:
        return self.opened.split(b"\0") if self.opened else []

    def keep_new_nodes(self) -> None:
        """Forget the nodes that are known from an earlier walk: their rows stay as they are."""
        rows = [(p, n) for p, n in zip(self.places, self.nodes, strict=True) if not n.known]
        self.places = array("I", [place for place, _ in rows])
        self.nodes = [node for _, node in rows]

    def settled_rows(self, proven_before_ns: int) -> bytes:
        """The rows to remember: of what was read, those of the open file, if they prove anything.

        A ctime close to the scan proves nothing: a later write may have the same one.
        """
        if not self.nodes and not self.unproven:
            return self.rows
        rows = bytearray(self.rows)
        for place in self.unproven:
            rows[place * ROW_SIZE : (place + 1) * ROW_SIZE] = UNPROVEN
        for place, node in zip(self.places, self.nodes, strict=True):
            is_old = node.is_excused or 0 < ctime_ns_of(node.row) < proven_before_ns
            row = node.row if is_old and not node.is_doubtful else UNPROVEN
            rows[place * ROW_SIZE : (place + 1) * ROW_SIZE] = row
        return bytes(rows)


class Listings:
    """The listings of an earlier walk, and which paths shared an inode then."""

    def __init__(
        self, listings: Iterable[Listing], links: dict[tuple[int, int], list[bytes]]
    ) -> None:
        self._by_path = {listing.path: listing for listing in listings}
        self.links = links

    def get(self, path: bytes) -> Listing | None:
        return self._by_path.get(path)

    def all(self) -> list[Listing]:
        return list(self._by_path.values())

    def forget(self, path: bytes) -> None:
        """Look at a path again next time."""
        directory, _, name = path.rpartition(b"/")
        listing = self._by_path.get(directory)
        if listing is None or name not in listing.names:
            return
        place = listing.names.split(b"\0").index(name)
        rows = bytearray(listing.rows)
        rows[place * ROW_SIZE : (place + 1) * ROW_SIZE] = UNPROVEN
        self._by_path[directory] = replace(listing, rows=bytes(rows))

    def still_linked(
        self, links: dict[tuple[int, int], list[bytes]]
    ) -> Iterator[tuple[tuple[int, int], list[bytes]]]:
        """Of the shared inodes of an earlier walk, those paths that this one has seen again."""
        for inode, paths in links.items():
            found = [path for path in paths if self._has(path, inode)]
            if found:
                yield inode, found

    def _has(self, path: bytes, inode: tuple[int, int]) -> bool:
        listing = self._by_path.get(path.rpartition(b"/")[0])
        return listing is not None and _INODE.pack(inode[1], inode[0]) in listing.rows
