"""Which new directories are staged with all that is in them, and moved in by one rename each.

On an empty machine that is nearly everything: a rename for each directory at the top instead of
one for each file, and all times and rights are set where nothing disturbs them any more.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from podferry_agent.snapshot.live import LiveTree
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.remove import GONE
from podferry_agent.snapshot.tree import LONGEST, Tree, split_path


def staged_name(path: bytes) -> bytes:
    """Short and independent of the file's own name."""
    return blake2b(path, digest_size=20).hexdigest().encode()


@dataclass
class Branches:
    """`directories` has the place in the stage of every directory that is staged whole."""

    roots: set[bytes] = field(default_factory=set)
    directories: dict[bytes, bytes] = field(default_factory=dict)
    late: set[bytes] = field(default_factory=set)  # names in them that could not be made there

    def place_of(self, path: bytes) -> bytes:
        """Where in the stage a name is made: in its branch, or else by itself."""
        parent, _, name = path.rpartition(b"/")
        directory = self.directories.get(parent)
        return staged_name(path) if directory is None else directory + b"/" + name

    def has(self, path: bytes) -> bool:
        """Whether a name comes into the tree with the branch that it is in."""
        if path in self.directories:
            return path not in self.roots
        return path.rpartition(b"/")[0] in self.directories and path not in self.late


class BranchFinder:
    """Finds the branches of one plan."""

    def __init__(self, tree: Tree, live: LiveTree, device: int) -> None:
        """`device`: of the stage; nothing can be renamed to another filesystem."""
        self._tree = tree
        self._live = live
        self._device = device

    def find(self, new: Iterable[bytes], want: dict[bytes, Entry]) -> Branches:
        """`new` are directories, parents first, that the walk of the tree did not meet."""
        branches = Branches()
        places = branches.directories
        for path in new:
            parent, name = split_path(path)
            above = places.get(parent)
            if above is not None and len(above) + len(name) < LONGEST:
                places[path] = above + b"/" + name
            elif parent in want and want[parent].is_directory and self._is_possible(parent, name):
                places[path] = staged_name(path)
                branches.roots.add(path)
        return branches

    def _is_possible(self, parent: bytes, name: bytes) -> bool:
        above = parent
        while not self._live.has_directory(above):
            above = split_path(above)[0]
        return self._live.nodes[above].st_dev == self._device and self._is_absent(parent, name)

    def _is_absent(self, parent: bytes, name: bytes) -> bool:
        """The walk shows no names of the machine, and those must stay."""
        try:
            with self._tree.directory(parent) as fd:
                os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            return error.errno in GONE  # or what stands there becomes a directory first
        return False
