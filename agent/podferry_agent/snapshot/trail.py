"""Opens the directories of a depth-first walk, each from its parent where that is still open."""

import os
from types import TracebackType
from typing import Self

from podferry_agent.snapshot.tree import OPEN_DIRECTORY, Tree, split_path

_KEPT_OPEN = 64


class Trail:
    """The open directories from the top of a tree to where a walk is."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._open: list[tuple[bytes, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        while self._open:
            os.close(self._open.pop()[1])

    def enter(self, path: bytes) -> int:
        """The fd of a directory, which stays open until the walk is elsewhere."""
        parent, name = split_path(path)
        while self._open and not _is_at_or_above(self._open[-1][0], parent, path):
            os.close(self._open.pop()[1])
        if self._open and self._open[-1][0] == parent:
            fd = os.open(name, OPEN_DIRECTORY, dir_fd=self._open[-1][1])
        else:
            fd = self._tree.open_directory(path)
        self._open.append((path, fd))
        if len(self._open) > _KEPT_OPEN:
            os.close(self._open.pop(0)[1])
        return fd


def _is_at_or_above(directory: bytes, parent: bytes, path: bytes) -> bool:
    """Whether a directory is an ancestor of `path`, whose parent is `parent`."""
    return bool(path) and (
        not directory or directory == parent or parent.startswith(directory + b"/")
    )
